# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's GPUs and MIG devices, as NVML lists them."""

from __future__ import annotations

import typing as t


class MigDevice(t.NamedTuple):
    uuid: str
    profile: str  # "1g.10gb"; of a part of a GPU instance "1c.3g.40gb"
    gi: int
    ci: int
    attributes: t.Mapping[str, int]  # by suffix of the label name, such as "slices.gi"


class Gpu(t.NamedTuple):
    uuid: str
    name: str
    minor: int
    bus_id: str
    pci_id: str  # "0x20B510DE"
    memory: int  # MiB
    capability: t.Tuple[int, int]
    mig_capable: bool
    mig_enabled: bool
    devices: t.Sequence[MigDevice] = ()


class Inventory(t.NamedTuple):
    driver: str
    cuda: t.Tuple[int, int]
    gpus: t.Sequence[Gpu]


def read() -> Inventory:
    import pynvml as nv

    nv.nvmlInit()
    try:
        cuda = nv.nvmlSystemGetCudaDriverVersion_v2()
        handles = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
        gpus = [read_gpu(nv, handle) for handle in handles]
        return Inventory(nv.nvmlSystemGetDriverVersion(), (cuda // 1000, cuda % 1000 // 10), gpus)
    finally:
        nv.nvmlShutdown()


def read_gpu(nv: t.Any, handle: t.Any) -> Gpu:
    try:
        mode: t.Optional[int] = nv.nvmlDeviceGetMigMode(handle)[0]
    except nv.NVMLError_NotSupported:
        mode = None
    place = nv.nvmlDeviceGetPciInfo(handle)
    return Gpu(
        nv.nvmlDeviceGetUUID(handle),
        nv.nvmlDeviceGetName(handle),
        nv.nvmlDeviceGetMinorNumber(handle),
        place.busId[4:].lower(),
        "0x%08X" % place.pciDeviceId,
        nv.nvmlDeviceGetMemoryInfo(handle).total >> 20,
        tuple(nv.nvmlDeviceGetCudaComputeCapability(handle)),
        mode is not None,
        mode == nv.NVML_DEVICE_MIG_ENABLE,
        list(mig_devices(nv, handle)) if mode else (),
    )


def mig_devices(nv: t.Any, gpu: t.Any) -> t.Iterator[MigDevice]:
    for index in range(nv.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            handle = nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nv.NVMLError_NotFound:
            continue
        found = nv.nvmlDeviceGetAttributes_v2(handle)
        attributes = {
            "memory": found.memorySizeMB,
            "multiprocessors": found.multiprocessorCount,
            "slices.gi": found.gpuInstanceSliceCount,
            "slices.ci": found.computeInstanceSliceCount,
            "engines.copy": found.sharedCopyEngineCount,
            "engines.decoder": found.sharedDecoderCount,
            "engines.encoder": found.sharedEncoderCount,
            "engines.jpeg": found.sharedJpegCount,
            "engines.ofa": found.sharedOfaCount,
        }
        yield MigDevice(
            nv.nvmlDeviceGetUUID(handle),
            nv.nvmlDeviceGetName(handle).rpartition("MIG ")[2],
            nv.nvmlDeviceGetGpuInstanceId(handle),
            nv.nvmlDeviceGetComputeInstanceId(handle),
            attributes,
        )
