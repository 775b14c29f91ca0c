# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPUs and driver of a node without using the driver: kernel files, PCI bus, packages, units.

Read-only, and works on a node where no NVIDIA library can be loaded. None means that a value
could not be read; empty and False mean that it was read and is absent.
"""

from __future__ import annotations

import os
import re
import typing as t

from ..common import commands, systemd
from . import installation as driver_installation

_VERSION = re.compile(r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{2,3})?)(?![\d.])")
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller
_SWITCH_CLASSES = ("0x0680",)  # other bridge: an NVSwitch
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# In Debian's packages the module name contains the driver series, which an alternative selects.
_MODULE_NAMES = ("nvidia", "nvidia-current", "nvidia-current-open")
_PACKAGES = ("*nvidia*", "NVIDIA-vGPU*")
_KERNEL_PACKAGE = re.compile(r"kmod|kmp|dkms|kernel-source|kernel-open")
_LIBRARY_PACKAGE = re.compile(r"^(libnvidia-(ml|compute)|nvidia-(driver|utils|smi|headless|open|compute))")


class PciGpu(t.NamedTuple):
    """An NVIDIA GPU, from the PCI bus and, if it is loaded, the kernel module's files."""

    pci_bus_id: str  # as NVML prints it
    pci_device_id: t.Optional[int]  # 0x<device><vendor>
    name: t.Optional[str]  # None for a GPU that the kernel module does not list
    uuid: t.Optional[str]
    pci_subsystem_id: t.Optional[int] = None  # 0x<device><vendor> of the subsystem


class PciSwitch(t.NamedTuple):
    """An NVSwitch on the PCI bus. Fifth-generation NVLink switches are not on the PCI bus."""

    pci_bus_id: str  # as NVML prints it
    pci_device_id: t.Optional[int]  # 0x<device><vendor>


class KernelModule(t.NamedTuple):
    flavour: t.Optional[str]  # "open", "proprietary" or "none"
    loaded: t.Optional[str]  # version
    installed: t.Optional[str]  # version


class FabricManager(t.NamedTuple):
    installed: t.Optional[bool]
    active: t.Optional[bool]
    enabled: t.Optional[bool]


class Package(t.NamedTuple):
    name: str
    version: str  # the driver version within the package version: "550.163.01" of "550.163.01-2"

    @property
    def is_kernel_module(self) -> bool:
        # The "common" packages contain firmware and configuration of the module, not the module.
        return self.is_vgpu or (_KERNEL_PACKAGE.search(self.name) is not None and "common" not in self.name)

    @property
    def is_driver(self) -> bool:
        return self.is_kernel_module or _LIBRARY_PACKAGE.search(self.name) is not None

    @property
    def is_vgpu(self) -> bool:
        """Kernel module and libraries in one package, whose name does not show the module's flavour."""
        return driver_installation.VGPU.match(self.name) is not None


class NodeReader:
    """Reads one node. ``root`` is the root of its file system."""

    def __init__(self, run: commands.Run, root: str = "/") -> None:
        self._run = run
        self._root = root
        self._capabilities: t.Optional[t.Dict[str, str]] = None  # minor numbers by the file of the capability

    def gpus(self) -> t.Optional[t.Tuple[PciGpu, ...]]:
        """NVIDIA GPUs on the PCI bus, in order of bus id, with or without a driver."""
        devices = self._on_the_bus(_GPU_CLASSES)
        if devices is None:
            return None
        found = []
        for slot, device_id in devices:
            information = self._kernel_information(slot)
            found.append(
                PciGpu(
                    pci_bus_id=nvml_bus_id(slot),
                    pci_device_id=device_id,
                    # The driver does not list GPUs that its option NVreg_ExcludedGpus names.
                    name=None if information.get("GPU Excluded") == "Yes" else information.get("Model"),
                    # The kernel module prints question marks until it has initialised the GPU.
                    uuid=None if "?" in information.get("GPU UUID", "?") else information["GPU UUID"],
                    pci_subsystem_id=self._subsystem_id(slot),
                )
            )
        return tuple(found)

    def device_files(self, pci_bus_id: str, gi_id: int, ci_id: int) -> t.Optional[t.List[str]]:
        """What a process must be able to open to use a MIG device: the GPU and two capabilities."""
        slots = [slot for slot in self._list("proc/driver/nvidia/gpus") or () if nvml_bus_id(slot) == pci_bus_id]
        gpu = self._kernel_information(slots[0]).get("Device Minor", "") if slots else ""
        if self._capabilities is None:
            lines = (self._read("proc/driver/nvidia-caps/mig-minors") or "").splitlines()
            self._capabilities = dict(line.rpartition(" ")[::2] for line in lines)
        places = ("gpu%s/gi%d/access" % (gpu, gi_id), "gpu%s/gi%d/ci%d/access" % (gpu, gi_id, ci_id))
        minors = [self._capabilities.get(place, "") for place in places]
        if not all(each.isdigit() for each in (gpu, *minors)):
            return None
        return ["/dev/nvidia" + gpu, *("/dev/nvidia-caps/nvidia-cap" + each for each in minors)]

    def nvswitches(self) -> t.Optional[t.Tuple[PciSwitch, ...]]:
        """NVSwitches on the PCI bus, in order of bus id."""
        devices = self._on_the_bus(_SWITCH_CLASSES)
        if devices is None:
            return None
        return tuple(PciSwitch(nvml_bus_id(slot), device_id) for slot, device_id in devices)

    def kernel_module(self) -> KernelModule:
        text = self._read("proc/driver/nvidia/version") or ""
        loaded = self._read("sys/module/nvidia/version") or _version_in(text)
        answered, installed, licence = self._modinfo()
        listed = self.packages()
        packages = [package for package in listed or () if package.is_kernel_module]
        if installed is None and packages:
            installed = packages[0].version
        flavour: t.Optional[str] = None
        if text:
            flavour = "open" if "Open Kernel Module" in text else "proprietary"
        elif licence:
            flavour = "open" if "GPL" in licence else "proprietary"
        elif packages:
            if not packages[0].is_vgpu:
                flavour = "open" if "open" in packages[0].name else "proprietary"
        elif not (loaded or installed) and (answered or listed is not None):
            flavour = "none"
        return KernelModule(flavour, loaded, installed)

    def packages(self) -> t.Optional[t.Tuple[Package, ...]]:
        """Installed packages of the driver: the kernel module first, then its libraries."""
        rows = self._package_rows()
        if rows is None:
            return None
        listed = _packages(rows)
        kernel = [package for package in listed if package.is_kernel_module]
        libraries = [package for package in listed if package.is_driver and package not in kernel]
        return tuple(sorted(kernel) + sorted(libraries))

    def installation(self) -> driver_installation.DriverInstallation:
        """How the driver was installed."""
        rows = self._package_rows()
        names = None if rows is None else [name for name, _version in rows]
        driver = [package.name for package in _packages(rows or ()) if package.is_driver]
        return driver_installation.read(self._run, self._root, names, sorted(driver))

    def secure_boot(self) -> t.Optional[str]:
        """``enabled``, ``disabled`` or ``unsupported`` (no UEFI)."""
        firmware = self._list("sys/firmware")
        if not firmware:  # container runtimes mask it with an empty directory
            return None
        if "efi" not in firmware:
            return "unsupported"
        try:
            with open(self._path(_SECURE_BOOT), "rb") as handle:
                value = handle.read()[4:5]  # after four bytes of attributes
        except OSError:
            return None
        return {b"\x00": "disabled", b"\x01": "enabled"}.get(value)

    def fabric_manager(self) -> FabricManager:
        unit = "nvidia-fabricmanager.service"
        values = systemd.properties(self._run, unit, "LoadState", "ActiveState", "UnitFileState")
        return FabricManager(
            installed={"loaded": True, "not-found": False}.get(values.get("LoadState", "")),
            active=values["ActiveState"] == "active" if "ActiveState" in values else None,
            enabled=values["UnitFileState"] == "enabled" if "UnitFileState" in values else None,
        )

    def _on_the_bus(self, classes: t.Sequence[str]) -> t.Optional[t.List[t.Tuple[str, t.Optional[int]]]]:
        """Slot and device id of every NVIDIA device of these classes."""
        base = "sys/bus/pci/devices"
        slots = self._list(base)
        if slots is None:
            return None
        found: t.List[t.Tuple[str, t.Optional[int]]] = []
        for slot in slots:
            vendor, kind, device = (self._read(base, slot, name) for name in ("vendor", "class", "device"))
            if vendor is None or kind is None:
                return None
            if vendor == _NVIDIA and kind[:6] in classes:
                found.append((slot, int(device, 16) << 16 | int(_NVIDIA, 16) if device else None))
        return found

    def _subsystem_id(self, slot: str) -> t.Optional[int]:
        vendor, device = (self._read("sys/bus/pci/devices", slot, "subsystem_" + part) for part in ("vendor", "device"))
        return int(device, 16) << 16 | int(vendor, 16) if vendor and device else None

    def _modinfo(self) -> t.Tuple[bool, t.Optional[str], t.Optional[str]]:
        """Whether modinfo works, and version and licence of the module that would be loaded."""
        for name in _MODULE_NAMES:
            status, output, _error = self._run(["modinfo", name])
            if status == commands.MISSING:
                return False, None, None
            if status == 0:
                fields = _fields(output)
                return True, fields.get("version"), fields.get("license")
        return True, None, None

    def _package_rows(self) -> t.Optional[t.List[t.Tuple[str, str]]]:
        """Name and version of all installed packages with NVIDIA's name."""
        listed = self._dpkg()
        if not listed:  # a node may have the commands of both package managers
            rpm = self._rpm()
            listed = listed if rpm is None else rpm
        return listed

    def _dpkg(self) -> t.Optional[t.List[t.Tuple[str, str]]]:
        status, output, _error = self._run(
            ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\\n", *_PACKAGES]
        )
        if status not in (0, 1):  # 1 means that the pattern matches nothing
            return None
        rows = [line.split() for line in output.splitlines()]
        return [(row[1], row[2]) for row in rows if len(row) == 3 and row[0][1:2] == "i"]

    def _rpm(self) -> t.Optional[t.List[t.Tuple[str, str]]]:
        status, output, _error = self._run(
            ["rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}\\n", *_PACKAGES]
        )
        if status != 0:
            return None
        rows = [line.split() for line in output.splitlines()]
        return [(row[0], row[1]) for row in rows if len(row) == 2]

    def _kernel_information(self, slot: str) -> t.Dict[str, str]:
        return _fields(self._read("proc/driver/nvidia/gpus", slot, "information") or "")

    def _path(self, *parts: str) -> str:
        return os.path.join(self._root, *parts)

    def _list(self, path: str) -> t.Optional[t.List[str]]:
        try:
            return sorted(os.listdir(self._path(path)))
        except OSError:
            return None

    def _read(self, *parts: str) -> t.Optional[str]:
        try:
            with open(self._path(*parts), encoding="utf-8", errors="replace") as handle:
                return handle.read().strip()
        except OSError:
            return None


def nvml_bus_id(slot: str) -> str:
    """The kernel's ``0000:47:00.0`` as NVML prints it: ``00000000:47:00.0``."""
    domain, rest = slot.split(":", 1)
    return "%s:%s" % (domain.zfill(8).upper(), rest.upper())


def _version_in(text: str) -> t.Optional[str]:
    match = _VERSION.search(text)
    return match.group(1) if match else None


def _fields(text: str) -> t.Dict[str, str]:
    """``Key: value`` lines; for duplicate keys, the first."""
    found: t.Dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def _packages(rows: t.Iterable[t.Tuple[str, str]]) -> t.List[Package]:
    found = []
    for name, text in rows:
        version = _version_in(text)
        if version is not None:
            found.append(Package(name, version))
    return found
