# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot restore on simulated nodes, with the files that the role installs and the command of its unit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import boot, engine

TOP = Path(__file__).resolve().parents[2]
NVSIM = TOP / "simulator" / "bin" / "nvsim"

LAYOUT = [
    {"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 2}},
    {"devices": 1, "mig_enabled": True, "mig_devices": [{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb"]}]},
]
PROFILES = [["1g.10gb", "1g.10gb", "3g.40gb"], ["3g.40gb"]]
BACKENDS = ["nvml", "nvidia_smi"]


class Node:
    """A simulated node with the role's files."""

    def __init__(self, work: Path, *arguments: str) -> None:
        self.path = work / "node"
        self.lock = work / "lock"
        self.settings = work / "mig-layout.json"
        self.command = work / "gpufleet-mig-restore"
        self.nvsim("create", "--driver", "550.163.01", *arguments)
        engine.replace(str(work / "lib" / engine.PACKAGE), engine.sources())
        self.command.write_text(boot.command_text(sys.executable, str(work / "lib"), str(self.settings)))

    def nvsim(self, verb: str, *arguments: str) -> str:
        return subprocess.run(
            [NVSIM, verb, self.path, *arguments], stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def gpus(self) -> t.Any:
        return json.loads(self.nvsim("show", "--json"))["gpus"]

    def profiles(self) -> t.List[t.List[str]]:
        return [sorted(gi["profile"] for gi in gpu["gpu_instances"]) for gpu in self.gpus()]

    def modes(self) -> t.List[bool]:
        return [bool(gpu["mode_current"]) for gpu in self.gpus()]

    def uuids(self) -> t.List[str]:
        return [ci["uuid"] for gpu in self.gpus() for gi in gpu["gpu_instances"] for ci in gi["compute_instances"]]

    def boot(
        self, *python: str, user: bool = False, during: t.Callable[..., None] = lambda _process: None, **settings: t.Any
    ) -> t.Tuple[int, str]:
        """Run the unit's command, and return status and output. ``python`` are options of the interpreter."""
        content = {"version": 1, "layout": LAYOUT, "driver_wait": 0, "lock_path": str(self.lock), "lock_wait": 0}
        self.settings.write_text(json.dumps(dict(content, **settings)))
        process = subprocess.Popen(
            [NVSIM, "run", *(["--user"] if user else []), self.path, "--", sys.executable, *python, self.command]
            + ["--settings", self.settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            during(process)
            output, _none = process.communicate()
        return process.returncode, output


@pytest.fixture(name="make_node")
def fixture_make_node(tmp_path: Path) -> t.Callable[..., Node]:
    return lambda *arguments: Node(tmp_path, *arguments)


def need(backend: str) -> None:
    if backend == "nvidia_smi" and not list((TOP / ".cache" / "nvidia-smi").glob("*/nvidia-smi")):
        pytest.skip("nvidia-smi is missing: run scripts/fetch-nvidia-smi")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("board", "keeps_mode"), [("A100-80GB", True), ("H100-80GB", False)])
def test_restores_the_layout_after_a_reboot(make_node, board, keeps_mode, backend):
    need(backend)
    node = make_node("--board", board, "--gpus", "2")
    assert node.boot(backend=backend)[0] == 0
    before = node.uuids()

    node.nvsim("reboot")
    assert (node.profiles(), node.modes()) == ([[], []], [keeps_mode, keeps_mode])
    status, said = node.boot(backend=backend)
    assert (status, node.profiles()) == (0, PROFILES)
    assert node.uuids() == before
    assert len(re.findall(r"^GPU [01] GPU-\w{4}\.\.\. .*\|3g\.40gb.*\|  restored$", said, re.MULTILINE)) == 2

    status, said = node.boot(backend=backend)
    assert (status, said.count("already matches the layout\n"), len(said.splitlines())) == (0, 2, 2)


def test_uses_nvidia_smi_without_pynvml(make_node):
    need("nvidia_smi")
    node = make_node("--board", "H100-80GB", "--gpus", "2")
    assert node.boot("-S")[0] == 0  # no site-packages
    assert node.profiles() == PROFILES


def test_restores_a_node_that_was_killed_during_a_change(make_node):
    node = make_node("--board", "A100-80GB", "--gpus", "2")
    node.nvsim("fault", "--write", "5", "--kill", "after")
    assert node.boot()[0] < 0 or node.profiles() != PROFILES
    assert node.profiles() != PROFILES
    node.nvsim("fault", "--clear")
    node.nvsim("reboot")
    assert node.boot()[0] == 0
    assert node.profiles() == PROFILES


def test_a_gpu_that_hangs_while_read_does_not_affect_the_others(make_node):
    node = make_node("--board", "A100-80GB:3")
    assert node.boot(layout=[dict(LAYOUT[0], devices=0)])[0] == 0
    node.nvsim("latency", "nvmlGpuInstanceGetInfo", "--ms", "600000")  # only GPU 0 has an instance
    before = node.profiles()
    layout = [LAYOUT[0], {"devices": [1, 2], "mig_enabled": True, "mig_devices": {}}]
    status, said = node.boot(backend="nvml", layout=layout, time_limit=20)
    assert (status, node.profiles(), node.modes()) == (1, before, [True, True, True])
    assert re.search(
        r"^GPU 0 cannot be read, and is left unchanged: .*TIMEOUT \(no response after ", said, re.MULTILINE
    )
    assert (said.count("|  restored\n"), len(said.splitlines())) == (2, 3)


def test_a_gpu_that_hangs_while_converged_does_not_affect_the_others(make_node):
    node = make_node("--board", "A100-80GB:2")
    assert node.boot(layout=[{"devices": 1, "mig_enabled": True, "mig_devices": {}}])[0] == 0
    node.nvsim("latency", "nvmlDeviceSetMigMode", "--ms", "600000")  # GPU 1 has MIG mode enabled
    status, said = node.boot(backend="nvml", layout=LAYOUT[:1], time_limit=10)
    assert (status, node.profiles()) == (1, [[], PROFILES[0]])
    assert re.search(r"^GPU 0 \(GPU-.* does not respond, and may be partially configured$", said, re.MULTILINE)
    assert said.count("|  restored\n") == 1


def test_requires_root(make_node):
    node = make_node("--board", "A100-80GB", "--gpus", "2")
    status, said = node.boot(user=True)
    assert status == 1
    assert "GPU 0 cannot be read, and is left unchanged: " in said
    assert "NO_PERMISSION" in said


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signal_waits_for_the_end_of_the_change(make_node: t.Callable[..., Node], backend: str) -> None:
    """As systemd and terminals do, to all processes of the group."""
    node = make_node("--gpus", "2", "--board", "H100-80GB")
    node.nvsim("latency", "--write", "--ms", "100")

    def interrupt(process: t.Any) -> None:
        while not any(node.profiles()):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)

    status, output = node.boot(backend=backend, during=interrupt)
    assert status == 0, output
    assert "Received SIGTERM during the change, which was not interrupted" in output
    assert node.profiles() == PROFILES
