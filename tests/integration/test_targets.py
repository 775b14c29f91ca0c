# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The integration targets: the modules through AnsiballZ, with pynvml or the real nvidia-smi, on simulated nodes.

The assertions are in the tasks of the targets. This file creates the nodes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NVSIM = HERE.parents[1] / "simulator" / "bin" / "nvsim"
A100 = ("--board", "A100-80GB")


@pytest.fixture(name="run")
def fixture_run(make_node, tmp_path, workload):
    """Run a scenario of a target on a new node."""

    def run(target, scenario, *arguments, backend="nvml", environment=None, root=True, python=None):
        node = make_node(*arguments)
        node.python = python or node.python
        variables = {
            "target": target,
            "target_path": str(HERE / "targets" / target),
            "scenario": scenario,
            "backend": backend,
            "node": str(node.path),
            "node_environment": environment or {},
            "nvsim": str(NVSIM),
            "lock_path": str(tmp_path / "lock"),
            "work": str(tmp_path),
            "workload": workload,
        }
        node.play(HERE / "target.yml", variables, root=root)

    return run


@pytest.fixture(name="without_pynvml")
def fixture_without_pynvml(tmp_path):
    """Return the environment of a node whose Python has no pynvml."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "pynvml.py").write_text('raise ImportError("no pynvml on this node")\n')
    return {"PYTHONPATH": str(tmp_path / "python")}


@pytest.fixture(name="backend", params=["nvml", "nvidia_smi"])
def fixture_backend(request, nvidia_smi):
    return request.param


@pytest.mark.parametrize(
    "scenario, node",
    [
        ("cycle", ("--board", "A100-80GB:1", "--board", "H100-80GB:1")),
        ("busy", A100),
        ("mode_reset", (*A100, "--gpus", "2", "--activation", "reset")),
    ],
)
def test_nvidia_mig(run, backend, scenario, node):
    run("nvidia_mig", scenario, *node, backend=backend)


@pytest.mark.parametrize(
    "scenario, node",
    [
        ("refusals", (*A100, "--gpus", "2")),
        ("config_file", A100),
        ("lock", A100),
        ("mode_reboot", (*A100, "--activation", "reboot")),
        ("failure", A100),
    ],
)
def test_nvidia_mig_with_nvml(run, scenario, node):
    run("nvidia_mig", scenario, *node)


def test_nvidia_mig_on_the_oldest_python(run, nvidia_smi):
    """Without pynvml, as on an old node."""
    listed = subprocess.run(
        [HERE.parents[1] / "scripts" / "interpreters"], stdout=subprocess.PIPE, text=True, check=True
    )
    oldest = listed.stdout.split()[1]
    run("nvidia_mig", "busy", *A100, backend="nvidia_smi", python=oldest)


def test_nvidia_mig_without_root(run):
    run("nvidia_mig", "not_root", *A100, root=False)


@pytest.mark.parametrize("source", ["nvml", "nvidia_smi"])
def test_facts_of_a_driver(run, nvidia_smi, without_pynvml, source):
    environment = without_pynvml if source == "nvidia_smi" else {}
    node = ("--board", "A100-80GB:1", "--board", "T4:1")
    run("nvidia_driver_facts", "driver", *node, backend=source, environment=environment)


def test_facts_of_a_node_without_pynvml_and_nvidia_smi(run, tmp_path, without_pynvml):
    run("nvidia_driver_facts", "nothing", environment=dict(without_pynvml, PATH=str(tmp_path)))


def test_facts_of_a_node_with_a_library_and_no_kernel_module(run, libnvidia_ml):
    run("nvidia_driver_facts", "no_kernel_module", environment={"LD_LIBRARY_PATH": str(libnvidia_ml.parent)})


def test_facts_of_a_node_without_gpu(run):
    run("nvidia_driver_facts", "no_gpu", "--board", "A100-80GB:0")


def test_facts_without_root(run):
    run("nvidia_driver_facts", "not_root", *A100, root=False)


@pytest.mark.parametrize("scenario", ["cycle", "refusals"])
def test_node_repository_key(run, scenario):
    run("node_repository_key", scenario)
