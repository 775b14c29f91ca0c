# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fabric manager, subnet manager and IMEX."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    B200,
    B300,
    GH200,
    H100,
    Data,
    gpu,
    plan,
    refusal,
)


@pytest.mark.parametrize(
    "system, settings, packages",
    [
        ("debian_12", {"branch": "580"}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("debian_12", {"branch": "570"}, ["nvidia-fabricmanager-570", "libnvidia-nscq-570"]),
        ("debian_13", {}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("ubuntu_22.04", {}, ["nvidia-fabricmanager-580", "libnvidia-nscq-580"]),
        ("ubuntu_22.04", {"branch": "595"}, ["nvidia-fabricmanager-595", "libnvidia-nscq-595"]),
        ("ubuntu_24.04", {"branch": "570", "source": "cuda_repository"},
         ["nvidia-fabricmanager-570", "libnvidia-nscq-570"]),
        ("ubuntu_24.04", {"source": "cuda_repository"}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("el_9", {}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("el_9", {"branch": "575"}, ["nvidia-fabric-manager", "libnvidia-nscq-575"]),
    ],
)  # fmt: skip
def test_the_fabric_manager_is_installed_with_nvswitches(system: str, settings: Data, packages: t.List[str]) -> None:
    found = plan(system, switches=6, **settings)
    assert (found["fabric_manager"], found["packages"][-2:]) == (True, packages)
    without = plan(system, switches=0, **settings)
    assert not without["fabric_manager"]
    assert without["packages"] == found["packages"][:-2]
    assert plan(system, switches=6, fabric_manager="absent", **settings) == without
    assert plan(system, switches=0, fabric_manager="present", **settings) == found


@pytest.mark.parametrize("system", ["debian_12", "debian_13", "el_9"])
def test_nvlink_5_needs_its_subnet_manager(system: str) -> None:
    found = plan(system, gpu(B200), fabric_manager="present")
    assert found["packages"][-3:] == ["nvidia-fabricmanager", "libnvidia-nscq", "nvlsm"]
    assert found["load_modules"] == ["ib_umad"]
    assert plan(system, gpu(H100), switches=4)["load_modules"] == []
    assert "nvlsm" not in plan(system, gpu(B200))["packages"]


def test_ubuntu_has_no_subnet_manager() -> None:
    message = refusal("ubuntu_24.04", gpu(B300), fabric_manager="present")
    assert "B300 needs nvlsm" in message
    assert "set nvidia_driver_source to cuda_repository" in message
    assert "nvlsm" in plan("ubuntu_24.04", gpu(B300), fabric_manager="present", source="cuda_repository")["packages"]


@pytest.mark.parametrize(
    "system, settings, package",
    [
        ("ubuntu_24.04", {}, "nvidia-imex-580"),
        ("ubuntu_24.04", {"source": "cuda_repository"}, "nvidia-imex"),
        ("ubuntu_24.04", {"source": "cuda_repository", "branch": "570"}, "nvidia-imex-570"),
        ("el_9", {}, "nvidia-imex"),
    ],
)
def test_imex_is_installed_on_grace_blackwell(system: str, settings: Data, package: str) -> None:
    found = plan(system, gpu("2941"), **settings)
    assert (found["fabric_manager"], found["packages"][-1]) == (False, package)
    assert any("nodes_config.cfg" in notice for notice in found["notices"])
    assert found["module_options"] == {"NVreg_CreateImexChannel0": "1", "NVreg_CoherentGPUMemoryMode": "driver"}
    assert plan(system, gpu("2941"), kernel_modules="none", **settings)["module_options"] == {}
    other = plan(system, gpu(GH200), **settings)
    assert "imex" not in str(other["packages"])
    assert other["module_options"] == {}


def test_fabric_managers_that_do_not_fit() -> None:
    assert "nvidia_driver_server to true" in refusal("ubuntu_22.04", switches=4, source="distribution", server=False)
    assert "cuda_repository" in refusal("debian_12", switches=4, source="distribution", branch="535")


def test_hidden_nvswitches_are_a_notice() -> None:
    (notice,) = plan("debian_12", gpu(B200))["notices"]
    assert "B200-180GB" in notice
    assert "nvidia_driver_fabric_manager to present" in notice
