# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs in the shape of the facts."""

from __future__ import annotations

import typing as t

A100, H100 = "0x20B510DE", "0x233010DE"


def instance(gi_id: int, profile: str, start: int, size: int, *slices: int) -> t.Dict[str, t.Any]:
    """A GPU instance; without slices, with one compute instance that fills it."""
    whole = int(profile[0])
    return {
        "id": gi_id,
        "profile": profile,
        "start": start,
        "size": size,
        "compute_instances": [
            {
                "id": number,
                "profile": profile if count == whole else "%dc.%s" % (count, profile),
                "slices": count,
                "uuid": "MIG-%d-%d" % (gi_id, number),
            }
            for number, count in enumerate(slices or (whole,))
        ],
    }


def reduced(gi_id: int, start: int) -> t.Dict[str, t.Any]:
    """A 1g.20gb of an H100 with the compute instance that has fewer multiprocessors."""
    out = instance(gi_id, "1g.20gb", start, 2)
    out["compute_instances"][0]["profile"] = "1c.1g.20gb"
    return out


def gpu(index: int, *instances: t.Dict[str, t.Any], current: t.Optional[bool] = True, **changes: t.Any) -> t.Any:
    """An A100 80GB with the given changes; ``current`` None: the GPU does not support MIG."""
    out: t.Dict[str, t.Any] = {
        "index": index,
        "uuid": "GPU-%04d2222-3333-4444-5555-666666666666" % index,
        "pci_bus_id": "00000000:%02X:00.0" % (0x47 + index),
        "pci_device_id": A100 if current is not None else "0x1EB810DE",
        "name": "NVIDIA A100 80GB PCIe" if current is not None else "Tesla T4",
        "mig": {
            "capable": current is not None,
            "current": current,
            "pending": current,
            "instances": list(instances),
            "devices": [],
        },
    }
    return dict(out, **changes)


def unknown(index: t.Optional[int], problem: t.Optional[str], **known: t.Any) -> t.Any:
    """An unreadable GPU, except for the given MIG mode."""
    mig: t.Dict[str, t.Any] = dict.fromkeys(("capable", "current", "pending", "instances", "devices"))
    return dict(gpu(index or 0), index=index, problem=problem, mig=dict(mig, **known))


LOST = unknown(1, "nvmlDeviceGetHandleByIndex: GPU_IS_LOST, GPU 1. Reboot the node")
NOT_ROOT = unknown(1, "nvmlDeviceGetGpuInstances: NO_PERMISSION. Run as root", capable=True, current=True, pending=True)
OFF = unknown(1, "nvmlDeviceGetGpuInstances: NO_PERMISSION. Run as root", capable=True, current=False, pending=False)
# With the expected messages.
UNKNOWN = (
    (LOST, "GPU 1 .GPU-0001.*, 00000000:48:00.0, NVIDIA A100 80GB PCIe.* is unknown: .*GPU_IS_LOST.*Reboot the node"),
    (NOT_ROOT, "GPU 1 .GPU-0001.* is unknown: .*NO_PERMISSION.*Run as root"),
    (OFF, "GPU 1 .GPU-0001.* is unknown: .*NO_PERMISSION.*Run as root"),
    (unknown(1, None, capable=True, current=True), "GPU 1 .GPU-0001.* is unknown: the facts have no instances"),
    (unknown(1, None, capable=True), "GPU 1 .GPU-0001.* is unknown: the facts have no MIG mode"),
    (unknown(1, None), "GPU 1 .GPU-0001.* is unknown: the facts do not show whether it supports MIG"),
    (unknown(None, None), "GPU 00000000:47:00.0 .NVIDIA A100 80GB PCIe. has no index: .* exclude it"),
)
