# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of a running driver."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._driver.node import (
    installation_problems,
    running_problems,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import Data

RUNNING: Data = {
    "driver": {"version": "580.126.20", "source": "nvml", "problem": None},
    "kernel_module": {"loaded_version": "580.126.20", "installed_version": "580.126.20", "versions_match": True},
    "fabric_manager": {"installed": True, "active": True, "enabled": True},
    "nvswitches": [{"pci_bus_id": "00000000:01:00.0"}],
    "gpus": [{"index": 0, "pci_bus_id": "00000000:47:00.0", "problem": None}],
}


def test_a_driver_without_problems() -> None:
    assert running_problems(RUNNING) == running_problems(RUNNING, {"fabric_manager": True}) == []
    passed_through = {"index": None, "pci_bus_id": "00000000:48:00.0", "name": None, "problem": None}
    assert running_problems({**RUNNING, "gpus": [*RUNNING["gpus"], passed_through]}) == []


def test_a_fabric_manager_that_does_not_start_after_a_reboot() -> None:
    facts = {**RUNNING, "fabric_manager": {"active": True, "enabled": False}}
    (problem,) = running_problems(facts, {"fabric_manager": True})
    assert "is not enabled" in problem
    assert running_problems(facts) == []  # another tool may start it


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"driver": {"problem": "no device"}}, "no driver answers (no device). Load it with modprobe nvidia"),
        (
            {"kernel_module": {"loaded_version": "1", "installed_version": "2", "versions_match": False}},
            "the running driver is 1, the installed driver is 2. Reboot the node",
        ),
        ({"fabric_manager": {"active": False}}, "nvidia-fabricmanager.service does not run; CUDA fails without it"),
        ({"fabric_manager": {"active": None}}, "systemctl does not report the state of nvidia-fabricmanager.service"),
        ({"nvswitches": None}, "its PCI bus cannot be read, so NVSwitches cannot be detected"),
        (
            {"gpus": [{"index": 1, "pci_bus_id": None, "problem": "GPU_IS_LOST"}]},
            "GPU 1: GPU_IS_LOST",
        ),
        (
            {"gpus": [{"index": None, "pci_bus_id": "00000000:47:00.0", "name": "H100", "problem": "UNKNOWN"}]},
            "GPU 00000000:47:00.0: UNKNOWN",
        ),
        (
            {"gpus": [{"index": None, "pci_bus_id": "00000000:47:00.0", "name": "NVIDIA H100", "problem": None}]},
            "GPU 00000000:47:00.0 (NVIDIA H100) belongs to the kernel module, but the driver does not list it. See dmesg",
        ),
    ],
)
def test_each_problem(facts: Data, words: str) -> None:
    (problem,) = running_problems({**RUNNING, **facts})
    assert words in problem


def test_a_driver_that_is_not_installed() -> None:
    module = {"loaded_version": None, "installed_version": None, "versions_match": None}
    facts = {**RUNNING, "driver": {"problem": "no device"}, "kernel_module": module}
    assert "Install it with site.yml --tags driver" in running_problems(facts)[0]


@pytest.mark.parametrize(("switches", "planned", "problems"), [([], True, 1), ([{}], False, 0), (None, True, 2)])
def test_the_plan_determines_whether_the_fabric_manager_must_run(
    switches: t.Optional[t.List[Data]], planned: bool, problems: int
) -> None:
    facts = {**RUNNING, "nvswitches": switches, "fabric_manager": {"active": False}}
    assert len(running_problems(facts, {"fabric_manager": planned})) == problems
    assert len(running_problems({**facts, "gpus": None}, None)) == (1 if switches is None or switches else 0)


@pytest.mark.parametrize("method", ["packages", "none", None])
def test_packages_may_replace_packages(method: t.Optional[str]) -> None:
    assert installation_problems({"driver": {"installation": {"method": method, "evidence": ["libcuda1"]}}}) == []


@pytest.mark.parametrize(
    ("method", "evidence", "words", "remedy"),
    [
        ("run_file", ["/usr/bin/nvidia-uninstall"], "NVIDIA's installer (a .run file) installed", "nvidia-uninstall"),
        ("vgpu_packages", ["nvidia-linux-grid-580"], "NVIDIA's vGPU driver is installed", "Remove its package"),
        ("other_packages", ["akmod-nvidia", "b"], "a driver of another repository is", "Remove its packages"),
        ("files", ["/usr/lib64/libcuda.so.1"], "libraries of the driver belong to no package", "delete these files"),
    ],
)
def test_packages_would_replace_half_of_a_foreign_driver(
    method: str, evidence: t.List[str], words: str, remedy: str
) -> None:
    (problem,) = installation_problems({"driver": {"installation": {"method": method, "evidence": evidence}}})
    assert problem.startswith(words)
    assert "(%s), and packages would replace only a part of it. Remove" % ", ".join(evidence) in problem
    assert remedy in problem
    assert problem.endswith(", or leave nvidia_driver out of gpu_node_roles")
