# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel modules: by GPU, prebuilt or built on the node, for every kernel."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import generations
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    A100,
    ARM,
    B200,
    B300,
    GH200,
    H100,
    K80,
    T4,
    V100,
    Data,
    gpu,
    plan,
    refusal,
)


@pytest.mark.parametrize(
    "system, kernel, headers",
    [
        ("el_9", "5.14.0-570.12.1.el9_6.x86_64", "kernel-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("el_9", "5.14.0-570.el9.x86_64+rt", "kernel-rt-devel-5.14.0-570.el9.x86_64"),
        ("el_9", "5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("el_9", "5.14.0-162.6.1.rt21.168.el9_1.x86_64", "kernel-rt-devel-5.14.0-162.6.1.rt21.168.el9_1.x86_64"),
        ("debian_12", "6.1.0-56-rt-amd64", "linux-headers-6.1.0-56-rt-amd64"),
        ("debian_13", "6.12.117+deb13-amd64", "linux-headers-6.12.117+deb13-amd64"),
        ("ubuntu_24.04", "6.8.0-1031-azure", "linux-headers-6.8.0-1031-azure"),
    ],
)
def test_headers_match_the_running_kernel(system: str, kernel: str, headers: str) -> None:
    found = plan(system, around={"kernel": kernel}, module_build="dkms")
    assert (found["headers"], found["packages"][0]) == (headers, headers)
    assert plan(system, around={"kernel": kernel}, kernel_modules="none")["headers"] == ""


def test_prebuilt_modules_need_no_headers() -> None:
    assert plan("ubuntu_24.04", source="distribution")["headers"] == ""


@pytest.mark.parametrize(
    "kernel, series",
    [
        ("5.15.0-203-generic", "generic-5.15"),
        ("6.8.0-149-generic", "generic-6.8"),  # not generic-hwe-22.04, which follows a later series
        ("5.15.0-1126-azure", "azure-5.15"),  # not azure, which is 6.8
        ("5.15.0-1125-azure-fde", "azure-fde-5.15"),
        ("5.15.0-199-lowlatency", "lowlatency-5.15"),
    ],
)
def test_ubuntus_modules_follow_the_series_of_the_kernel(kernel: str, series: str) -> None:
    found = plan("ubuntu_22.04", around={"kernel": kernel})
    modules = "linux-modules-nvidia-580-server-open-"
    assert found["kernel_packages"] == ["linux-image-" + series, modules + series]
    assert found["packages"][:2] == found["kernel_packages"]
    assert found["optional_packages"] == [modules + kernel]


def test_only_signed_modules_of_ubuntu_follow_a_kernel() -> None:
    for found in (plan("debian_12"), plan("ubuntu_22.04", module_build="dkms"), plan("el_10", module_build="prebuilt")):
        assert (found["optional_packages"], found["kernel_packages"]) == ([], [])


@pytest.mark.parametrize(
    "kernel, settings, headers",
    [
        ("6.8.0-1060-aws", {"branch": "595"}, "linux-headers-aws-6.8"),  # signed for 580 only
        ("6.14.0-37-generic", {"branch": "615"}, "linux-headers-generic-6.14"),
        ("6.8.0-149-generic", {"source": "cuda_repository"}, "linux-headers-generic-6.8"),
    ],
)
def test_kernels_without_signed_modules_get_headers_of_their_series(kernel: str, settings: Data, headers: str) -> None:
    found = plan("ubuntu_24.04", around={"kernel": kernel}, **settings)
    assert (found["build"], found["packages"][:2]) == ("dkms", ["linux-headers-" + kernel, headers])
    signed = [notice for notice in found["notices"] if "no signed modules" in notice]
    assert len(signed) == (0 if "source" in settings else 1)


def test_kernels_without_prebuilt_modules_get_dkms() -> None:
    found = plan("ubuntu_22.04", around={"kernel": "6.18.44-own"}, source="distribution")
    assert (found["build"], found["packages"][0]) == ("dkms", "nvidia-headless-580-server-open")
    assert found["notices"] == [
        "Canonical offers no signed modules of driver 580-server-open for kernel 6.18.44-own: DKMS builds them on the node.",
        "Kernel 6.18.44-own is not one of Ubuntu 22.04's. DKMS needs its headers, which must be installed already.",
    ]
    assert "nvidia_driver_module_build" in refusal(
        "ubuntu_22.04", source="distribution", around={"kernel": "6.18.44-own"}, module_build="prebuilt"
    )


@pytest.mark.parametrize(
    "system, settings",
    [
        ("debian_12", {}),
        ("el_9", {"kernel_modules": "open"}),
        ("el_10", {"kernel_modules": "proprietary"}),
        ("el_10", {"around": {"architecture": "aarch64"}}),
        ("ubuntu_24.04", {"source": "cuda_repository"}),
    ],
)
def test_prebuilt_modules_that_do_not_exist_are_refused(system: str, settings: Data) -> None:
    assert "set nvidia_driver_module_build to dkms" in refusal(system, module_build="prebuilt", **settings)


def test_signed_modules_of_enterprise_linux_use_another_repository() -> None:
    (notice,) = plan("el_10", module_build="prebuilt")["notices"]
    assert "rhel-10-for-x86_64-extensions-rpms" in notice
    assert plan("el_10")["build"] == plan("el_9")["build"] == "dkms"


@pytest.mark.parametrize(
    "system, modules, stream",
    [
        ("el_9", "open", "nvidia-driver:580-open"),
        ("el_9", "proprietary", "nvidia-driver:580-dkms"),
        ("el_9", "none", ""),
        ("el_10", "open", "nvidia-driver:580-open"),
        ("debian_12", "open", ""),
    ],
)
def test_module_streams(system: str, modules: str, stream: str) -> None:
    found = plan(system, kernel_modules=modules)
    assert found["module_stream"] == stream
    assert found["module_stream_optional"] == (system == "el_10")  # its repository does not always have streams
    found = plan("el_9", kernel_modules="proprietary", module_build="prebuilt", version="580.126.20")
    assert found["module_stream"] == "nvidia-driver:580"


@pytest.mark.parametrize(
    "kernel, packages",
    [
        ("7.0.0-43-generic", ["linux-image-generic-7.0", "linux-modules-nvidia-580-server-open-generic-7.0"]),
        ("7.0.0-1005-nvidia", ["linux-headers-7.0.0-1005-nvidia", "nvidia-headless-580-server-open"]),
        ("7.0.0-43-generic-64k", ["linux-headers-7.0.0-43-generic-64k", "nvidia-headless-580-server-open"]),
    ],
)
def test_signed_modules_of_another_architecture(kernel: str, packages: t.List[str]) -> None:
    assert plan("ubuntu_26.04", around={**ARM, "kernel": kernel})["packages"][:2] == packages


def test_headers_of_later_kernels_are_installed_only_if_they_are_known() -> None:
    kernel = "6.8.0-1031-nvidia-64k"
    found = plan("ubuntu_24.04", around={**ARM, "kernel": kernel})["packages"]
    assert [name for name in found if name.startswith("linux-")] == ["linux-headers-" + kernel]


def test_precompiled_modules_are_those_of_a_kernel_and_a_driver_version() -> None:
    settings = {"kernel_modules": "proprietary", "module_build": "prebuilt", "version": "580.126.20"}
    found = plan("el_9", around={"kernel": "5.14.0-611.24.1.el9_7.x86_64"}, **settings)
    assert found["packages"][0] == "kmod-nvidia-580.126.20-5.14.0-611.24.1"
    assert "dnf-plugin-nvidia" in found["independent"]  # its version is not the driver's
    assert "set nvidia_driver_version" in refusal("el_9", **{**settings, "version": ""})
    for around in (ARM, {"kernel": "5.14.0-611.el9.x86_64+rt"}, {"kernel": "6.18.44-own"}):
        assert "no prebuilt proprietary modules" in refusal("el_9", around=around, **settings)


@pytest.mark.parametrize(
    "device, branch, modules",
    [
        (A100, "580", "open"),
        (A100, "535", "proprietary"),
        (A100, "560", "open"),
        (H100, "550", "proprietary"),
        (T4, "580", "open"),
        (V100, "580", "proprietary"),
        (V100, "535", "proprietary"),
        (B200, "580", "open"),
        (B300, "580", "open"),
        (GH200, "535", "open"),
        ("F000", "620", "open"),
    ],
)
def test_modules_are_chosen_by_the_gpu(device: str, branch: str, modules: str) -> None:
    assert plan("ubuntu_22.04", gpu(device), branch=branch, source="cuda_repository")["modules"] == modules


@pytest.mark.parametrize(
    "gpus, settings, words",
    [
        ([A100, V100, B200], {}, ["no kernel module supports all", "(Blackwell) needs the open", "Volta) needs the propr"]),
        ([B200], {"kernel_modules": "proprietary"}, ["only the open kernel module", "2901"]),
        ([V100], {"kernel_modules": "open"}, ["only the proprietary"]),
        ([A100, GH200], {"kernel_modules": "proprietary"}, ["only the open kernel module"]),
        ([K80], {}, ["Kepler", "remove it"]),
        ([V100], {"branch": "595"}, ["up to 580 only"]),
        ([B200], {"branch": "550"}, ["570 or later"]),
        ([B300], {"branch": "570"}, ["580 or later"]),
    ],
)  # fmt: skip
def test_drivers_that_do_not_support_the_gpus_are_refused(
    gpus: t.List[str], settings: Data, words: t.List[str]
) -> None:
    message = refusal("debian_12", *(gpu(device, slot) for slot, device in enumerate(gpus)), **settings)
    assert [word for word in words if word not in message] == []


def test_kernel_modules_none_installs_no_kernel_module() -> None:
    assert plan("debian_12", gpu(A100), gpu(V100, 1), gpu(B200, 2), kernel_modules="none")["modules"] == "none"


def test_every_board_has_modules_for_its_generation() -> None:
    for name in boards.names():
        for device in boards.data(name)["pci_device_ids"]:
            generation = generations.generation(device)
            assert generation in generations.GENERATIONS
            assert "open" in generation.modules, name


def test_a_node_without_gpu_is_refused_unless_boards_are_set() -> None:
    empty = {"gpus": []}
    assert "nvidia_driver_boards" in refusal("debian_12", around=empty)
    found = plan("debian_12", around=empty, boards=["B300"], branch="580")
    assert (found["modules"], found["minimum_version"]) == ("open", "580.82.07")
    assert plan("debian_12", around=empty, boards=["NVIDIA A10", "V100"])["modules"] == "proprietary"
    assert "A100-80GB" in refusal("debian_12", around=empty, boards=["A1000"])
