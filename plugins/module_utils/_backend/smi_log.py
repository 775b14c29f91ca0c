# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Parse the XML output of nvidia-smi (``-q -x``)."""

from __future__ import annotations

import re
import typing as t
from xml.etree import ElementTree

from .._common.printable import printable
from .._mig.model import Process
from . import architecture
from .smi_tables import ParseError

# Texts of nvmlErrorString, which nvidia-smi prints in place of a value.
ERROR = re.compile(
    r"(Unknown Error|GPU is lost|Uninitialized|Insufficient Permissions|Invalid Argument|Not Supported|Not Found|Timeout"
    r"|Driver Not Loaded|Function Not Found|GPU requires reset|Insufficient Size|In use by another client)\b"
)


class SmiDevice(t.NamedTuple):
    """A MIG device and its number in NVML, whose order is that of ``nvidia-smi -L``."""

    number: int
    gi_id: int
    ci_id: int


class Log(t.NamedTuple):
    """One GPU, with the values that the log contains."""

    driver: t.Optional[str]  # this and cuda may be the text of an error
    cuda: t.Optional[str]
    uuid: str
    pci_bus_id: str
    name: str
    pci_device_id: int
    pci_subsystem_id: int
    mode_current: t.Optional[bool]
    mode_pending: t.Optional[bool]
    memory_mib: t.Optional[int]
    architecture: t.Optional[str]
    serial: t.Optional[str]
    minor: t.Optional[int]
    devices: t.Tuple[SmiDevice, ...]
    processes: t.Tuple[Process, ...]
    virtual: bool = False  # a vGPU of a virtual machine


def parse(text: str) -> Log:
    """``-q -x`` of one GPU."""
    logs = parse_all(text)
    if len(logs) != 1:
        raise ParseError("the log shows %d GPUs instead of one" % len(logs))
    return logs[0]


def parse_all(text: str) -> t.List[Log]:
    """``-q -x``"""
    root = _root(text)
    return [_log(root, gpu) for gpu in root.findall("gpu")]


def _log(root: ElementTree.Element, gpu: ElementTree.Element) -> Log:
    if gpu.find("mig_devices/mig_device") is not None and _mode(gpu, "mig_mode/current_mig") is None:
        raise ParseError("the log shows MIG devices and no MIG mode")
    return Log(
        driver=_value(root, "driver_version"),
        cuda=_value(root, "cuda_version"),
        uuid=_needed(gpu, "uuid"),
        pci_bus_id=_needed(gpu, "pci/pci_bus_id").upper(),
        name=_needed(gpu, "product_name"),
        pci_device_id=_hexadecimal(gpu, "pci/pci_device_id"),
        pci_subsystem_id=_hexadecimal(gpu, "pci/pci_sub_system_id"),
        mode_current=_mode(gpu, "mig_mode/current_mig"),
        mode_pending=_mode(gpu, "mig_mode/pending_mig"),
        memory_mib=_number(gpu, "fb_memory_usage/total"),
        architecture=_architecture(gpu),
        serial=_fact(gpu, "serial"),
        minor=_number(gpu, "minor_number"),
        devices=_devices(gpu),
        processes=_processes(gpu),
        virtual=_value(gpu, "gpu_virtualization_mode/virtualization_mode") == "VGPU",
    )


def _root(text: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(printable(text))  # names of processes may contain what XML does not allow
    except ElementTree.ParseError as error:
        raise ParseError("invalid XML (%s): %r" % (error, text[:200])) from error


def _value(element: ElementTree.Element, path: str) -> t.Optional[str]:
    """The text, or None if nvidia-smi reports no value."""
    text = (element.findtext(path) or "").strip()
    unavailable = text in ("", "N/A", "None", "Not Active") or text.startswith("[") or text.startswith("Requested func")
    return None if unavailable else text


def _fact(element: ElementTree.Element, path: str) -> t.Optional[str]:
    """A text that is only used in facts; None also if nvidia-smi printed an NVML error in its place."""
    text = _value(element, path)
    return None if text is None or ERROR.match(text) else text


def _hexadecimal(element: ElementTree.Element, path: str) -> int:
    text = _needed(element, path)
    try:
        return int(text, 16)
    except ValueError:
        raise ParseError("%s is not a hexadecimal number: %r" % (path, text)) from None


def _needed(element: ElementTree.Element, path: str) -> str:
    text = _fact(element, path)
    if text is None:
        raise ParseError("the log has no %s: %r" % (path, element.findtext(path)))
    return text


def _number(element: ElementTree.Element, path: str) -> t.Optional[int]:
    text = _value(element, path)
    if text is None:
        return None
    found = re.match(r"^(\d+)(?: MiB)?$", text)
    if found is None:
        raise ParseError("%s is not a number: %r" % (path, text))
    return int(found.group(1))


def _mode(gpu: ElementTree.Element, path: str) -> t.Optional[bool]:
    text = _value(gpu, path)
    if text not in ("Enabled", "Disabled", None):
        raise ParseError("%s is neither Enabled nor Disabled: %r" % (path, text))
    return None if text is None else text == "Enabled"


def _architecture(gpu: ElementTree.Element) -> t.Optional[str]:
    # NVML calls "Ada Lovelace" only Ada.
    name = (_fact(gpu, "product_architecture") or "unknown").split()[0].lower()
    return name if name in architecture.NAMES.values() else None


def _devices(gpu: ElementTree.Element) -> t.Tuple[SmiDevice, ...]:
    found = []
    for device in gpu.findall("mig_devices/mig_device"):
        numbers = [_number(device, path) for path in ("index", "gpu_instance_id", "compute_instance_id")]
        if None in numbers:
            raise ParseError("a MIG device without number or ids")
        found.append(SmiDevice(*(number or 0 for number in numbers)))
    return tuple(found)


def _processes(gpu: ElementTree.Element) -> t.Tuple[Process, ...]:
    """The processes, each once per instance that it uses."""
    names: t.Dict[t.Tuple[int, t.Optional[int], t.Optional[int]], str] = {}
    for info in gpu.findall("processes/process_info"):
        pid = _number(info, "pid")
        if pid is None:
            raise ParseError("a process without PID")
        key = (pid, _number(info, "gpu_instance_id"), _number(info, "compute_instance_id"))
        names[key] = _fact(info, "process_name") or ""
    ordered = sorted(names, key=lambda key: tuple(-1 if part is None else part for part in key[1:] + key[:1]))
    return tuple(Process(pid, names[(pid, gi_id, ci_id)], gi_id, ci_id) for pid, gi_id, ci_id in ordered)
