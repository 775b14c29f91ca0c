# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the driver of a node was installed."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.installation import DriverInstallation
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.node import KernelModule, NodeReader

Answer = t.Optional[t.Tuple[int, str]]

DPKG = "ii  libnvidia-compute-580 580.95.05-0ubuntu1\nii  nvidia-dkms-580-open 580.95.05-0ubuntu1\n"
PACKAGES = DriverInstallation("packages", ("libnvidia-compute-580", "nvidia-dkms-580-open"))
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"


def node(root: Path, dpkg: Answer = None, rpm: Answer = None, owner: t.Sequence[int] = (1, 127)) -> NodeReader:
    """A node with these answers to lists of packages, and to which package a file belongs to, of dpkg and of rpm."""

    def run(argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        status, output = {"dpkg-query": dpkg, "rpm": rpm}.get(argv[0]) or (127, "")
        if "--search" in argv or "--file" in argv:
            assert argv[-1].endswith("/" + LIBRARY.rsplit("/", 1)[1])
            status = owner[0 if argv[0] == "dpkg-query" else 1]
        return status, output, ""

    return NodeReader(run, str(root))


def touch(root: Path, path: str) -> None:
    (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (root / path.lstrip("/")).touch()


def library(root: Path, path: str = LIBRARY) -> None:
    touch(root, path)
    (root / path.lstrip("/")).with_name("libcuda.so.1").symlink_to("libcuda.so.580.95.05")


@pytest.mark.parametrize("path", ["/var/lib/nvidia/log", "/usr/bin/nvidia-uninstall"])
def test_files_of_nvidias_installer(tmp_path: Path, path: str) -> None:
    touch(tmp_path, path)
    assert node(tmp_path, (0, DPKG)).installation() == DriverInstallation("run_file", (path,))


def test_the_log_of_a_removed_driver_is_no_evidence(tmp_path: Path) -> None:
    touch(tmp_path, "/var/log/nvidia-installer.log")
    assert node(tmp_path, (1, "")).installation() == DriverInstallation("none")


def test_a_driver_that_the_machines_image_mounts(tmp_path: Path) -> None:
    path = "/usr/local/nvidia/lib64/libcuda.so.580.95.05"
    library(tmp_path, path)
    assert node(tmp_path, (1, "")).installation() == DriverInstallation("files", (path,))


@pytest.mark.parametrize(
    ("dpkg", "rpm", "expected"),
    [
        ("ii  nvidia-linux-grid-580 580.178.04", "", ("vgpu_packages", "nvidia-linux-grid-580")),
        ("hi  nvidia-vgpu-ubuntu-535 535.161.05", "", ("vgpu_packages", "nvidia-vgpu-ubuntu-535")),
        ("", "nvidia-linux-grid-595 595.91.07", ("vgpu_packages", "nvidia-linux-grid-595")),
        ("", "NVIDIA-vGPU-rhel 550.163.02", ("vgpu_packages", "NVIDIA-vGPU-rhel")),
        ("", "akmod-nvidia 580.95.05", ("other_packages", "akmod-nvidia")),
        ("", "xorg-x11-drv-nvidia-cuda 580.95.05", ("other_packages", "xorg-x11-drv-nvidia-cuda")),
        ("", "nvidia-x11-drv 580.95.05", ("other_packages", "nvidia-x11-drv")),
    ],
)
def test_packages_that_are_not_the_roles(tmp_path: Path, dpkg: str, rpm: str, expected: t.Tuple[str, str]) -> None:
    found = node(tmp_path, (0, dpkg + "\n") if dpkg else None, (0, rpm + "\n") if rpm else None)
    assert found.installation() == DriverInstallation(expected[0], expected[1:])


@pytest.mark.parametrize("dpkg", ["ii  nvidia-linux-grid-580 580.178.04\n", ""])
def test_a_vgpu_driver_has_a_kernel_module_of_unknown_flavour(tmp_path: Path, dpkg: str) -> None:
    found = node(tmp_path, (0, dpkg) if dpkg else None, (0, "NVIDIA-vGPU-rhel 580.178.04\n"))
    assert found.kernel_module() == KernelModule(None, None, "580.178.04")
    assert [package.version for package in found.packages() or ()] == ["580.178.04"]


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ((0, 127), PACKAGES),
        ((1, 0), PACKAGES),  # a node with the commands of both package managers
        ((1, 127), DriverInstallation("files", (LIBRARY,))),
        ((1, 1), DriverInstallation("files", (LIBRARY,))),
        ((2, 127), DriverInstallation(None)),
        ((127, 127), DriverInstallation(None)),
    ],
)
def test_libraries_without_a_package(tmp_path: Path, owner: t.Sequence[int], expected: DriverInstallation) -> None:
    library(tmp_path)
    assert node(tmp_path, (0, DPKG), owner=owner).installation() == expected


def test_packages_or_nothing(tmp_path: Path) -> None:
    assert node(tmp_path, (0, DPKG)).installation() == PACKAGES
    assert node(tmp_path, (1, "ii  nvidia-container-toolkit 1.18.0-1\n")).installation() == DriverInstallation("none")
    assert node(tmp_path, (2, "")).installation() == DriverInstallation(None)
