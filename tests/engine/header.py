# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The return codes that nvml.h allows for each function that the engine calls, besides success.

UNINITIALIZED and UNKNOWN can come from any of them and are added to every set.
"""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes as e

INSUFFICIENT_POWER, IRQ_ISSUE = 8, 11

ANYWHERE = frozenset({e.UNINITIALIZED, e.UNKNOWN})
DEVICE = frozenset({e.INVALID_ARGUMENT, e.GPU_IS_LOST})
TEXT = DEVICE | {e.INSUFFICIENT_SIZE}
PROCESSES = DEVICE | {e.INSUFFICIENT_SIZE, e.NO_PERMISSION, e.NOT_SUPPORTED}
MIG = frozenset({e.INVALID_ARGUMENT, e.NOT_SUPPORTED, e.NO_PERMISSION})

ALLOWED = {
    "nvmlInitWithFlags": frozenset({e.DRIVER_NOT_LOADED, e.NO_PERMISSION}),
    "nvmlShutdown": frozenset(),
    "nvmlDeviceGetCount_v2": frozenset({e.INVALID_ARGUMENT}),
    "nvmlDeviceGetHandleByIndex_v2": DEVICE | {INSUFFICIENT_POWER, e.NO_PERMISSION, IRQ_ISSUE},
    "nvmlDeviceGetUUID": TEXT | {e.NOT_SUPPORTED},
    "nvmlDeviceGetName": TEXT,
    "nvmlDeviceGetSerial": TEXT | {e.NOT_SUPPORTED},
    "nvmlDeviceGetPciInfo_v3": DEVICE,
    "nvmlDeviceGetMinorNumber": DEVICE | {e.NOT_SUPPORTED},
    "nvmlDeviceGetMemoryInfo": DEVICE | {e.NO_PERMISSION},
    "nvmlDeviceGetCudaComputeCapability": DEVICE,
    "nvmlDeviceGetArchitecture": frozenset({e.INVALID_ARGUMENT}),
    "nvmlDeviceGetFieldValues": frozenset({e.INVALID_ARGUMENT}),
    "nvmlDeviceGetComputeRunningProcesses_v3": PROCESSES,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": PROCESSES,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": PROCESSES,
    "nvmlSystemGetProcessName": frozenset({e.INVALID_ARGUMENT, e.NOT_FOUND, e.NO_PERMISSION}),
    "nvmlDeviceGetMigMode": frozenset({e.INVALID_ARGUMENT, e.NOT_SUPPORTED}),
    "nvmlDeviceSetMigMode": MIG,
    "nvmlDeviceGetGpuInstanceProfileInfo": MIG,
    "nvmlDeviceGetGpuInstanceProfileInfoV": MIG,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": MIG,
    "nvmlDeviceGetGpuInstances": MIG,
    "nvmlDeviceGetGpuInstanceById": MIG | {e.NOT_FOUND},
    "nvmlGpuInstanceGetInfo": frozenset({e.INVALID_ARGUMENT, e.NO_PERMISSION}),
    "nvmlDeviceCreateGpuInstanceWithPlacement": MIG | {e.INSUFFICIENT_RESOURCES},
    "nvmlGpuInstanceDestroy": MIG | {e.IN_USE},
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": MIG,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": MIG,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": MIG,
    "nvmlGpuInstanceGetComputeInstances": MIG,
    "nvmlGpuInstanceGetComputeInstanceById": MIG | {e.NOT_FOUND},
    "nvmlComputeInstanceGetInfo_v2": frozenset({e.INVALID_ARGUMENT, e.NO_PERMISSION}),
    "nvmlGpuInstanceCreateComputeInstance": MIG | {e.INSUFFICIENT_RESOURCES},
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": MIG | {e.INSUFFICIENT_RESOURCES},
    "nvmlComputeInstanceDestroy": frozenset({e.INVALID_ARGUMENT, e.NO_PERMISSION, e.IN_USE}),
    "nvmlDeviceGetMaxMigDeviceCount": frozenset({e.INVALID_ARGUMENT}),
    "nvmlDeviceGetMigDeviceHandleByIndex": frozenset({e.INVALID_ARGUMENT, e.NOT_SUPPORTED, e.NOT_FOUND}),
    "nvmlDeviceGetGpuInstanceId": frozenset({e.INVALID_ARGUMENT, e.NOT_SUPPORTED}),
    "nvmlDeviceGetComputeInstanceId": frozenset({e.INVALID_ARGUMENT, e.NOT_SUPPORTED}),
}

WRITES = frozenset(
    {
        "nvmlDeviceSetMigMode",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceDestroy",
        "nvmlGpuInstanceCreateComputeInstance",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
        "nvmlComputeInstanceDestroy",
    }
)


def codes_of(function: str) -> "list[int]":
    return sorted(ALLOWED[function] | ANYWHERE)
