# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.node import (
    FabricManager,
    KernelModule,
    NodeReader,
    Package,
    PciGpu,
    PciSwitch,
    nvml_bus_id,
)

PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-AM02-24-3)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
MODINFO_OPEN = """\
filename:       /lib/modules/6.8.0-79-generic/updates/dkms/nvidia.ko.zst
firmware:       nvidia/580.95.05/gsp_tu10x.bin
import_ns:      DMA_BUF
alias:          char-major-195-*
version:        580.95.05
supported:      external
license:        Dual MIT/GPL
"""
MODINFO_PROPRIETARY = """\
filename:       /lib/modules/6.1.0-28-amd64/updates/dkms/nvidia-current.ko
version:        550.163.01
license:        NVIDIA
"""
INFORMATION = """\
Model: \t\t NVIDIA A100 80GB PCIe
IRQ:   \t\t 152
GPU UUID: \t GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60
Video BIOS: \t 92.00.68.00.01
Bus Type: \t PCIe
Bus Location: \t 0000:47:00.0
"""


class Commands:
    """Answers by the first words of a command; unknown programs are not installed."""

    def __init__(self, **answers):
        self.answers = answers

    def __call__(self, argv):
        answer = self.answers.get(argv[0].replace("-", "_"), lambda _argv: (127, ""))(argv)
        return (*answer, "")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    def write(path, content):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())

    write.root = str(tmp_path)
    return write


def pci(tree, slot, **files):
    for name, content in dict({"vendor": "0x10de", "class": "0x030200", "device": "0x20b5"}, **files).items():
        tree("sys/bus/pci/devices/%s/%s" % (slot, name), content + "\n")


def node(tree, **commands):
    return NodeReader(Commands(**commands), tree.root)


def test_an_empty_node(tree):
    pci(tree, "0000:00:00.0", vendor="0x8086", **{"class": "0x060000"})
    tree("sys/firmware/acpi/tables/FACP", "")
    empty = node(
        tree,
        modinfo=lambda _argv: (1, ""),
        dpkg_query=lambda _argv: (1, ""),
        systemctl=lambda _argv: (0, "LoadState=not-found\nActiveState=inactive\nUnitFileState=\n"),
    )
    assert empty.gpus() == ()
    assert empty.nvswitches() == ()
    assert empty.kernel_module() == KernelModule("none", None, None)
    assert empty.packages() == ()
    assert empty.secure_boot() == "unsupported"
    assert empty.fabric_manager() == FabricManager(False, False, False)


def test_an_unreadable_node_is_unknown(tree):
    hidden = node(tree)
    assert hidden.gpus() is None
    assert hidden.nvswitches() is None
    assert hidden.kernel_module() == KernelModule(None, None, None)
    assert hidden.packages() is None
    assert hidden.secure_boot() is None
    assert hidden.fabric_manager() == FabricManager(None, None, None)


def test_the_files_of_a_mig_device(tree):
    """As the driver 580 shows them: capabilities are numbered by the GPU's minor number, not by its index."""
    tree("proc/driver/nvidia/gpus/0000:47:00.0/information", "Model: \t\t X\nDevice Minor: \t 3\n")
    tree("proc/driver/nvidia-caps/mig-minors", "config 1\ngpu3/gi1/access 417\ngpu3/gi1/ci0/access 418\n")
    files = ["/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap417", "/dev/nvidia-caps/nvidia-cap418"]
    assert node(tree).device_files("00000000:47:00.0", 1, 0) == files
    assert node(tree).device_files("00000000:47:00.0", 1, 1) is None
    assert node(tree).device_files("00000000:48:00.0", 1, 0) is None


def test_a_device_on_the_bus_that_cannot_be_read_may_be_a_gpu(tree):
    pci(tree, "0000:47:00.0")
    tree("sys/bus/pci/devices/0000:48:00.0/class", "0x030200\n")
    assert node(tree).gpus() is None


def test_a_gpu_whose_device_id_cannot_be_read_has_none(tree):
    tree("sys/bus/pci/devices/0000:47:00.0/vendor", "0x10de\n")
    tree("sys/bus/pci/devices/0000:47:00.0/class", "0x030200\n")
    assert node(tree).gpus() == (PciGpu("00000000:47:00.0", None, None, None),)


@pytest.mark.parametrize(
    "answers",
    [
        {"dpkg_query": lambda _argv: (2, "")},
        {"rpm": lambda _argv: (1, "")},
        {"dpkg_query": lambda _argv: (2, ""), "rpm": lambda _argv: (1, "")},
    ],
    ids=["dpkg", "rpm", "both"],
)
def test_a_package_database_that_fails_is_not_empty(tree, answers):
    assert node(tree, **answers).packages() is None
    assert node(tree, **answers).kernel_module().flavour is None


def test_modinfo_alone_shows_that_there_is_no_module(tree):
    assert node(tree, modinfo=lambda _argv: (1, "")).kernel_module() == KernelModule("none", None, None)


def test_a_loaded_module_that_does_not_show_its_flavour_has_none(tree):
    tree("sys/module/nvidia/version", "550.163.01\n")
    assert node(tree, modinfo=lambda _argv: (1, "")).kernel_module() == KernelModule(None, "550.163.01", None)


def test_gpus_on_the_bus_are_found_without_a_driver(tree):
    pci(tree, "0000:c1:00.0", **{"class": "0x030000"})
    pci(tree, "0000:47:00.0", subsystem_vendor="0x10de", subsystem_device="0x1533")
    pci(tree, "0000:47:00.1", **{"class": "0x040300"})  # the GPU's sound device
    pci(tree, "0000:05:00.0", **{"class": "0x068000"})  # an NVSwitch
    pci(tree, "0000:03:00.0", vendor="0x1a03", **{"class": "0x030000"})  # the board's own graphics
    assert node(tree).gpus() == (
        PciGpu("00000000:47:00.0", 0x20B510DE, None, None, 0x153310DE),
        PciGpu("00000000:C1:00.0", 0x20B510DE, None, None),
    )


def test_nvswitches_are_found_on_the_bus(tree):
    pci(tree, "0000:47:00.0")
    pci(tree, "0000:06:00.0", device="0x22a3", **{"class": "0x068000"})
    pci(tree, "0000:05:00.0", device="0x22a3", **{"class": "0x068000"})
    pci(tree, "0000:07:00.0", vendor="0x8086", **{"class": "0x068000"})
    assert node(tree).nvswitches() == (
        PciSwitch("00000000:05:00.0", 0x22A310DE),
        PciSwitch("00000000:06:00.0", 0x22A310DE),
    )


def test_the_kernel_module_provides_name_and_uuid(tree):
    pci(tree, "0000:47:00.0")
    tree("proc/driver/nvidia/gpus/0000:47:00.0/information", INFORMATION)
    assert node(tree).gpus() == (
        PciGpu("00000000:47:00.0", 0x20B510DE, "NVIDIA A100 80GB PCIe", "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"),
    )


def test_an_excluded_gpu_is_like_one_that_is_passed_through(tree):
    pci(tree, "0000:47:00.0")
    tree("proc/driver/nvidia/gpus/0000:47:00.0/information", INFORMATION + "GPU Excluded: \t Yes\n")
    assert node(tree).gpus()[0].name is None


def test_an_unknown_uuid_of_the_kernel_module_is_none(tree):
    pci(tree, "0000:47:00.0")
    tree(
        "proc/driver/nvidia/gpus/0000:47:00.0/information",
        INFORMATION.replace("9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60", "????????-????-????-????-????????????"),
    )
    (gpu,) = node(tree).gpus()
    assert (gpu.name, gpu.uuid) == ("NVIDIA A100 80GB PCIe", None)


@pytest.mark.parametrize(
    "slot, expected",
    [("0000:47:00.0", "00000000:47:00.0"), ("10000:e1:00.0", "00010000:E1:00.0")],
)
def test_bus_ids_are_spelled_as_by_nvml(slot, expected):
    assert nvml_bus_id(slot) == expected


@pytest.mark.parametrize(
    "text, version, flavour",
    [(PROPRIETARY, "550.163.01", "proprietary"), (OPEN, "580.95.05", "open")],
    ids=["proprietary", "open"],
)
def test_version_and_flavour_of_a_loaded_module(tree, text, version, flavour):
    tree("proc/driver/nvidia/version", text)
    assert node(tree).kernel_module() == KernelModule(flavour, version, None)
    tree("sys/module/nvidia/version", version + "\n")
    assert node(tree).kernel_module() == KernelModule(flavour, version, None)


def test_the_installed_module_may_be_newer_than_the_loaded_one(tree):
    tree("proc/driver/nvidia/version", PROPRIETARY)
    found = node(tree, modinfo=lambda _argv: (0, MODINFO_OPEN)).kernel_module()
    assert found == KernelModule("proprietary", "550.163.01", "580.95.05")


@pytest.mark.parametrize(
    "output, expected",
    [
        (MODINFO_OPEN, KernelModule("open", None, "580.95.05")),
        (MODINFO_PROPRIETARY, KernelModule("proprietary", None, "550.163.01")),
    ],
    ids=["open", "proprietary"],
)
def test_the_licence_of_a_module_on_disk_determines_its_flavour(tree, output, expected):
    assert node(tree, modinfo=lambda _argv: (0, output)).kernel_module() == expected


def test_debian_calls_the_module_nvidia_current(tree):
    def modinfo(argv):
        return (0, MODINFO_PROPRIETARY) if argv[1] == "nvidia-current" else (1, "")

    assert node(tree, modinfo=modinfo).kernel_module() == KernelModule("proprietary", None, "550.163.01")


DPKG = """\
ii  libnvidia-compute-580 580.95.05-0ubuntu1
ii  nvidia-dkms-580-open 580.95.05-0ubuntu1
ii  nvidia-kernel-common-580 580.95.05-0ubuntu1
rc  nvidia-dkms-535 535.183.01-0ubuntu1
hi  nvidia-driver-580-open 580.95.05-0ubuntu1
ii  nvidia-container-toolkit 1.18.0-1
ii  linux-modules-nvidia-580-open-generic 6.8.0-79.79+1
un  nvidia-smi
"""
RPM = """\
nvidia-driver-libs 550.163.01
kmod-nvidia-latest-dkms 550.163.01
nvidia-kmod-common 550.163.01
nvidia-container-toolkit 1.17.8
"""


def test_packages_of_debian_and_ubuntu(tree):
    packages = node(tree, dpkg_query=lambda _argv: (1, DPKG)).packages()
    assert packages == (
        Package("nvidia-dkms-580-open", "580.95.05"),
        Package("libnvidia-compute-580", "580.95.05"),
        Package("nvidia-driver-580-open", "580.95.05"),
    )


def test_packages_of_red_hat(tree):
    packages = node(tree, rpm=lambda _argv: (0, RPM)).packages()
    assert packages == (
        Package("kmod-nvidia-latest-dkms", "550.163.01"),
        Package("nvidia-driver-libs", "550.163.01"),
    )


@pytest.mark.parametrize(
    "version, expected",
    [("1:550.163.01-2~deb12u1", "550.163.01"), ("470.256.02-1", "470.256.02"), ("580.95-1", "580.95")],
)
def test_the_drivers_version_inside_a_packages_version(tree, version, expected):
    packages = node(tree, dpkg_query=lambda _argv: (0, "ii  libnvidia-ml1 %s\n" % version)).packages()
    assert packages == (Package("libnvidia-ml1", expected),)


@pytest.mark.parametrize(
    "answers, expected",
    [
        ({"dpkg_query": lambda _argv: (0, DPKG)}, KernelModule("open", None, "580.95.05")),
        ({"rpm": lambda _argv: (0, RPM)}, KernelModule("proprietary", None, "550.163.01")),
    ],
    ids=["dpkg", "rpm"],
)
def test_without_modinfo_the_version_is_that_of_the_packages(tree, answers, expected):
    assert node(tree, **answers).kernel_module() == expected


def test_libraries_alone_are_not_a_kernel_module(tree):
    found = node(tree, dpkg_query=lambda _argv: (0, "ii  libnvidia-ml1 550.163.01-2\n")).kernel_module()
    assert found == KernelModule("none", None, None)


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"\x06\x00\x00\x00\x01", "enabled"),
        (b"\x06\x00\x00\x00\x00", "disabled"),
        (b"\x06\x00\x00\x00", None),
        (None, None),
    ],
)
def test_secure_boot(tree, content, expected):
    tree("sys/firmware/efi/fw_platform_size", "64\n")
    if content is not None:
        tree("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", content)
    assert node(tree).secure_boot() == expected


@pytest.mark.parametrize(
    "output, expected",
    [
        ("LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n", FabricManager(True, True, True)),
        ("LoadState=loaded\nActiveState=failed\nUnitFileState=disabled\n", FabricManager(True, False, False)),
        ("LoadState=not-found\nActiveState=inactive\nUnitFileState=\n", FabricManager(False, False, False)),
        ("LoadState=masked\nActiveState=inactive\nUnitFileState=masked\n", FabricManager(None, False, False)),
        ("", FabricManager(None, None, None)),
    ],
    ids=["running", "failed", "absent", "masked", "silent"],
)
def test_fabric_manager(tree, output, expected):
    assert node(tree, systemctl=lambda _argv: (0, output)).fabric_manager() == expected


def test_the_fabric_manager_is_unknown_without_systemd(tree):
    assert node(tree, systemctl=lambda _argv: (1, "")).fabric_manager() == FabricManager(None, None, None)
