# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of ``nvidia-smi -q -x`` on a real node, and a simulated node like that one."""

from __future__ import annotations

import ctypes
import os
import pathlib
import typing as t
import xml.etree.ElementTree as ET

from .description import RequestedGpu, find, load_boards, load_products
from .library import Node, NodeError, library


class MigDevice(t.NamedTuple):
    gi: int
    ci: int
    memory_mib: int  # of the GPU instance
    multiprocessors: int  # of the compute instance
    ofa: bool  # only profiles with +me, and those of a whole GPU, have this engine
    uuid: t.Optional[str]


class Gpu(t.NamedTuple):
    requested: RequestedGpu
    mode: bool
    devices: t.Sequence[MigDevice]


class Recording(t.NamedTuple):
    driver: str
    cuda: t.Optional[str]
    gpus: t.Sequence[Gpu]


def text(element: ET.Element, path: str) -> t.Optional[str]:
    """Return the text of a value; None if it is missing, or nvidia-smi says that it is not available."""
    found = " ".join((element.findtext(path) or "").split())
    return None if found in ("", "N/A", "[N/A]", "Unknown Error", "Not Found") else found


def number(element: ET.Element, path: str) -> int:
    """Return the number of a value such as "40192 MiB"."""
    found = text(element, path)
    try:
        return int(str(found).split()[0])
    except ValueError:
        raise NodeError("%s: no number, but %s" % (path, found)) from None


def read(path: pathlib.Path) -> Recording:
    try:
        content = path.read_text(encoding="utf-8")
        if "<!ENTITY" in content:  # nvidia-smi declares none, and they can expand without limit
            raise NodeError("it declares XML entities")
        log = ET.fromstring(content)
        if log.tag != "nvidia_smi_log":
            raise NodeError("the outermost element is %s" % log.tag)
        driver = text(log, "driver_version")
        gpus = [read_gpu(element) for element in log.findall("gpu")]
        if not driver or not gpus:
            raise NodeError("it has no driver version, or no GPU")
    except (ET.ParseError, UnicodeDecodeError, NodeError) as problem:
        raise NodeError("cannot import %s as an output of nvidia-smi -q -x: %s" % (path, problem)) from None
    return Recording(driver, text(log, "cuda_version"), gpus)


def read_gpu(gpu: ET.Element) -> Gpu:
    name, uuid = text(gpu, "product_name"), text(gpu, "uuid")
    if not name or not uuid:
        raise NodeError("GPU %s has no product name, or no UUID" % gpu.get("id"))
    devices = [
        MigDevice(
            number(device, "gpu_instance_id"),
            number(device, "compute_instance_id"),
            number(device, "fb_memory_usage/total"),
            number(device, "device_attributes/shared/multiprocessor_count"),
            number(device, "device_attributes/shared/ofa_count") > 0,
            text(device, "uuid"),
        )
        for device in gpu.findall("mig_devices/mig_device")
    ]
    requested = RequestedGpu(
        find(name, load_boards(), load_products()["products"]),
        uuid=uuid,
        bus_id=text(gpu, "pci/pci_bus_id") or gpu.get("id"),
        serial=text(gpu, "serial"),
        vbios=text(gpu, "vbios_version"),
        part_number=text(gpu, "board_part_number"),
        pci=text(gpu, "pci/pci_device_id"),
        subsystem=text(gpu, "pci/pci_sub_system_id"),
    )
    return Gpu(requested, text(gpu, "mig_mode/current_mig") == "Enabled", devices)


def mig_uuids(recording: Recording) -> t.Dict[str, t.Dict[str, str]]:
    """Return recorded UUIDs of MIG devices, by GPU and "GI/CI"."""
    return {
        str(gpu.requested.uuid): {
            "%d/%d" % (device.gi, device.ci): device.uuid for device in gpu.devices if device.uuid
        }
        for gpu in recording.gpus
    }


class Placement(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]


class GpuInstance(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("id", ctypes.c_uint), ("profile", ctypes.c_uint), ("at", Placement)]


def restore(node: Node, recording: Recording) -> None:
    """Give the simulated GPUs the recorded modes and instances, through NVML."""
    before = {name: os.environ.get(name) for name in ("NVSIM_STATE", "NVSIM_UID")}
    os.environ.update(NVSIM_STATE=str(node.state), NVSIM_UID="0")
    nvml = library()
    check(nvml.nvmlInit_v2())
    try:
        for index, gpu in enumerate(recording.gpus):
            device = ctypes.c_void_p()
            check(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)))
            if gpu.mode:
                check(nvml.nvmlDeviceSetMigMode(device, 1, ctypes.byref(ctypes.c_uint())))
            for gi in sorted({found.gi for found in gpu.devices}):
                create(node, index, device, [found for found in gpu.devices if found.gi == gi])
    finally:
        nvml.nvmlShutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def check(code: int) -> None:
    if code:
        raise NodeError(library().nvmlErrorString(code).decode(), code)


def create(node: Node, index: int, device: ctypes.c_void_p, devices: t.Sequence[MigDevice]) -> None:
    """Create a GPU instance with its compute instances.

    The XML has neither profile nor placement. The profile is the one with the closest figures; the driver numbers
    instances by their place, so the place is the one at which the instance gets the recorded id.
    """
    nvml, first = library(), devices[0]
    cis = {found.ci: found.multiprocessors for found in devices}
    rows = node.show()["gpus"][index]["profiles"]

    def distance(row: t.Mapping[str, t.Any]) -> t.Tuple[bool, int, int]:
        """Memory differs a little between drivers; of equal sizes, the multiprocessors decide."""
        memory = abs(row["memory_mib"] - first.memory_mib) // 1024
        return (row["ofa"] > 0) != first.ofa, memory, abs(row["multiprocessors"] - sum(cis.values()))

    for row in sorted(rows, key=distance):
        for start in row["starts"]:
            gi = ctypes.c_void_p()
            place = Placement(start, row["size"])
            if nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, row["id"], ctypes.byref(place), ctypes.byref(gi)):
                continue
            info = GpuInstance()
            check(nvml.nvmlGpuInstanceGetInfo(gi, ctypes.byref(info)))
            if info.id == first.gi:
                return create_compute_instances(gi, cis, "GPU %d, GPU instance %d" % (index, first.gi))
            check(nvml.nvmlGpuInstanceDestroy(gi))
    raise NodeError("GPU %d: no free profile and placement has the GPU instance id %d" % (index, first.gi))


def create_compute_instances(gi: ctypes.c_void_p, cis: t.Mapping[int, int], where: str) -> None:
    """Create compute instances, given as multiprocessors by id. The driver numbers them from 0."""
    nvml = library()
    known = {}
    for constant in range(32):
        figures = (ctypes.c_uint * 9)()  # id, slices, instances, multiprocessors, engines
        if not nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, constant, 0, ctypes.byref(figures)):
            known.setdefault(figures[3], figures[0])
    for expected, (ci, multiprocessors) in enumerate(sorted(cis.items())):
        if ci != expected or multiprocessors not in known:
            raise NodeError("%s: cannot create compute instance %d with %d SMs" % (where, ci, multiprocessors))
        made = ctypes.c_void_p()
        check(nvml.nvmlGpuInstanceCreateComputeInstance(gi, known[multiprocessors], ctypes.byref(made)))
