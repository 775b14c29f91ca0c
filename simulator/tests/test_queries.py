# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries of monitors: versioned structures, the NVLink fabric, utilization by process, fans."""

from __future__ import annotations

import ctypes
import time
import typing as t
import uuid

import pynvml as nv
import pytest
from conftest import code_of, create_at
from nvsim.library import library

Simulate = t.Callable[..., t.Any]
Sleeper = t.Callable[[], t.Any]


def memory_info(device: t.Any, version: int) -> int:
    memory = nv.c_nvmlMemory_v2_t()
    memory.version = version
    return t.cast(int, library().nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(memory)))


def test_a_wrong_version_of_the_memory_structure(simulate: Simulate) -> None:
    """Drivers return the same code as for a missing function. nvtop sends 2 without the structure's size."""
    device = simulate("A100-80GB", mig=False).handle()
    assert memory_info(device, nv.nvmlMemory_v2) == nv.NVML_SUCCESS
    for version in (0, 2, nv.nvmlMemory_v2 + 1, 3 << 24 | 40):
        assert memory_info(device, version) == nv.NVML_ERROR_FUNCTION_NOT_FOUND


def fabric_info(device: t.Any, structure: t.Any, version: int = 0) -> t.Tuple[int, t.Any]:
    info = structure()
    if not version:
        return nv_code("nvmlDeviceGetGpuFabricInfo", device, info), info
    info.version = version
    return nv_code("nvmlDeviceGetGpuFabricInfoV", device, info), info


def nv_code(function: str, device: t.Any, argument: t.Any) -> int:
    return t.cast(int, library()[function](device, ctypes.byref(argument)))


FABRIC = {  # by version; 0: the function without versions
    0: nv.c_nvmlGpuFabricInfo_t,
    nv.nvmlGpuFabricInfo_v2: nv.c_nvmlGpuFabricInfo_v2_t,
    nv.nvmlGpuFabricInfo_v3: nv.c_nvmlGpuFabricInfo_v3_t,
}


@pytest.mark.parametrize("version", FABRIC)
def test_fabric_of_one_node(simulate: Simulate, version: int) -> None:
    """GPUs behind the NVSwitches of one board are registered, without a cluster."""
    session = simulate("H100-80GB", "H200-141GB", "B200-180GB", "H20-96GB", "B300", mig=False)
    for index in range(5):
        code, info = fabric_info(session.handle(index), FABRIC[version], version)
        assert code == nv.NVML_SUCCESS
        assert (info.state, info.status) == (nv.NVML_GPU_FABRIC_STATE_COMPLETED, nv.NVML_SUCCESS)
        assert (info.cliqueId, bytes(info.clusterUuid)) == (0, bytes(16))
        if version:
            assert info.healthMask == 0
        if version == nv.nvmlGpuFabricInfo_v3:
            assert info.healthSummary == nv.NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED


@pytest.mark.parametrize("version", FABRIC)
def test_fabric_of_several_nodes(simulate: Simulate, version: int) -> None:
    """All GPUs of a rack are in one cluster and one clique, and healthy."""
    session = simulate("GB200-186GB", "GB200-186GB", "GB300", mig=False)
    clusters = set()
    for index in range(3):
        code, info = fabric_info(session.handle(index), FABRIC[version], version)
        assert code == nv.NVML_SUCCESS
        assert (info.state, info.status) == (nv.NVML_GPU_FABRIC_STATE_COMPLETED, nv.NVML_SUCCESS)
        assert info.cliqueId > 0
        clusters.add(uuid.UUID(bytes=bytes(info.clusterUuid)))
        if version:
            degraded = info.healthMask >> nv.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW
            assert degraded & 3 == nv.NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE
            wrong = info.healthMask >> nv.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION
            assert wrong & 0xF == nv.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE
        if version == nv.nvmlGpuFabricInfo_v3:
            assert info.healthSummary == nv.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY
    assert len(clusters) == 1 and clusters != {uuid.UUID(int=0)}
    assert session.gpu(0)["fabric_cluster"] == str(clusters.pop())


@pytest.mark.parametrize("version", FABRIC)
def test_no_fabric(simulate: Simulate, version: int) -> None:
    """Before Hopper, the query is not supported. From Hopper on, the query succeeds with the state "not supported"."""
    session = simulate("A100-80GB", "A100-PCIE-80GB", "T4", "H100-NVL", "RTX-PRO-6000", "GH200-96GB", mig=False)
    for index in range(3):
        code, info = fabric_info(session.handle(index), FABRIC[version], version)
        assert (code, info.state) == (nv.NVML_ERROR_NOT_SUPPORTED, 0)
    for index in range(3, 6):
        code, info = fabric_info(session.handle(index), FABRIC[version], version)
        assert (code, info.state, info.status) == (0, nv.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, 0)


def test_wrong_arguments_of_fabric_queries(simulate: Simulate) -> None:
    session = simulate("H100-80GB")
    info = nv.c_nvmlGpuFabricInfo_v3_t()
    for version in (0, 2, 3, 1 << 24 | 28, nv.nvmlGpuFabricInfo_v2 + 1, 4 << 24 | 40):
        info.version = version
        assert nv_code("nvmlDeviceGetGpuFabricInfoV", session.handle(), info) == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    for function in ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"):
        assert library()[function](session.handle(), None) == nv.NVML_ERROR_INVALID_ARGUMENT
        assert library()[function](None, ctypes.byref(info)) == nv.NVML_ERROR_INVALID_ARGUMENT


# pynvml's wrappers of the two functions that sample processes, with the start time in microseconds.
SAMPLES = (nv.nvmlDeviceGetProcessUtilization, nv.nvmlDeviceGetProcessesUtilizationInfo)


@pytest.mark.parametrize("samples", SAMPLES)
def test_utilization_by_process(simulate: Simulate, sleeper: Sleeper, samples: t.Callable[..., t.Any]) -> None:
    session = simulate("A100-80GB", "A100-80GB", mig=False)
    device = session.handle()
    assert code_of(samples, device, 0) == nv.NVML_ERROR_NOT_FOUND
    working = [sleeper().pid, sleeper().pid]
    for pid in working:
        session.node.attach(pid, gpu=0)
    session.node.attach(sleeper().pid, gpu=0, kind="client")
    before = int(time.time() * 1e6)
    found = samples(device, 0)
    assert sorted(sample.pid for sample in found) == sorted(working)
    assert {(sample.smUtil, sample.memUtil, sample.encUtil, sample.decUtil) for sample in found} == {(50, 20, 0, 0)}
    taken = found[0].timeStamp
    assert before - 400000 <= taken <= int(time.time() * 1e6)
    assert code_of(samples, device, before + 10**9) == nv.NVML_ERROR_NOT_FOUND
    assert code_of(samples, session.handle(1), 0) == nv.NVML_ERROR_NOT_FOUND
    time.sleep(0.2)  # longer than a sampling period
    [later, _other] = samples(device, taken)
    assert later.timeStamp > taken


def test_a_buffer_that_is_too_small_for_the_samples(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB", mig=False)
    pids = [sleeper().pid for _each in range(3)]
    for pid in pids:
        session.node.attach(pid, gpu=0)
    call = library().nvmlDeviceGetProcessUtilization
    since, count = ctypes.c_ulonglong(0), ctypes.c_uint(2)
    room = (nv.c_nvmlProcessUtilizationSample_t * 4)()
    assert call(session.handle(), room, ctypes.byref(count), since) == nv.NVML_ERROR_INSUFFICIENT_SIZE
    assert (count.value, room[0].pid) == (3, 0)
    count.value = 4
    assert call(session.handle(), None, ctypes.byref(count), since) == nv.NVML_ERROR_INSUFFICIENT_SIZE
    count.value = 4
    assert call(session.handle(), room, ctypes.byref(count), since) == nv.NVML_SUCCESS
    assert (count.value, room[3].pid) == (3, 0)
    assert call(session.handle(), room, None, since) == nv.NVML_ERROR_INVALID_ARGUMENT
    assert call(None, room, ctypes.byref(count), since) == nv.NVML_ERROR_INVALID_ARGUMENT

    info = nv.c_nvmlProcessesUtilizationInfo_v1_t()
    new = library().nvmlDeviceGetProcessesUtilizationInfo
    assert new(session.handle(), ctypes.byref(info)) == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    assert new(session.handle(), None) == nv.NVML_ERROR_INVALID_ARGUMENT
    info.version = nv.ProcessesUtilizationInfo_v1
    assert new(session.handle(), ctypes.byref(info)) == nv.NVML_ERROR_INSUFFICIENT_SIZE
    assert info.processSamplesCount == 3


def test_no_utilization_by_process_with_mig(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB")
    gi = create_at(session.handle(), 9, 4, 4)
    nv.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    session.node.attach(sleeper().pid, gpu=0, gi=nv.nvmlGpuInstanceGetInfo(gi).id)
    for device in (session.handle(), nv.nvmlDeviceGetMigDeviceHandleByIndex(session.handle(), 0)):
        for samples in SAMPLES:
            assert code_of(samples, device, 0) == nv.NVML_ERROR_NOT_SUPPORTED


def test_only_the_newer_function_samples_processes_on_blackwell(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("B200-180GB", mig=False)
    session.node.attach(sleeper().pid, gpu=0)
    old, new = SAMPLES
    assert code_of(old, session.handle(), 0) == nv.NVML_ERROR_NOT_SUPPORTED
    assert [sample.smUtil for sample in new(session.handle(), 0)] == [100]


def test_the_fabric_of_a_mig_device(simulate: Simulate) -> None:
    """It belongs to the GPU."""
    session = simulate("H100-80GB")
    gi = create_at(session.handle(), 9, 4, 4)
    nv.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    mig = nv.nvmlDeviceGetMigDeviceHandleByIndex(session.handle(), 0)
    assert fabric_info(mig, nv.c_nvmlGpuFabricInfo_t)[0] == nv.NVML_ERROR_INVALID_ARGUMENT
