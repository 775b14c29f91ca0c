# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lifecycle of every board: mode, profiles, GPU instances, compute instances, MIG devices, and removal."""

from __future__ import annotations

import ctypes
import typing as t
import uuid

import pynvml as nv
import pytest
from conftest import (
    SIMULATED,
    address,
    code_of,
    compute_profiles,
    create_at,
    gpu_instances,
    mig_devices,
    placements_of,
    profiles_of,
)
from nvsim import description

Simulate = t.Callable[..., t.Any]


@pytest.mark.parametrize("board", SIMULATED)
def test_profiles_match_the_board_files(simulate: Simulate, board: str) -> None:
    device = simulate(board, driver="580.126.09").handle()
    expected = description.load_boards()[board]["profiles"]
    profiles = profiles_of(device)
    assert list(profiles) == [row["name"] for row in sorted(expected, key=lambda row: row["constant"])]
    for row in expected:
        info = profiles[row["name"]]
        assert (info.constant, info.id, info.sliceCount) == (row["constant"], row["id"], row["slices"])
        assert info.instanceCount == row["max_instances"]
        for shown, key in (
            (info.memorySizeMB, row["memory_mib"]),
            (info.multiprocessorCount, row["multiprocessors"]),
            (info.copyEngineCount, row["copy_engines"]),
            (info.decoderCount, row["media"]["dec"]),
            (info.encoderCount, row["media"]["enc"]),
            (info.jpegCount, row["media"]["jpeg"]),
            (info.ofaCount, row["media"]["ofa"]),
        ):
            assert shown == key or key is None
        places = placements_of(device, info.id)
        assert places == [(start, row["placements"]["size"]) for start in row["placements"]["starts"]]
        by_id = nv.nvmlDeviceGetGpuInstanceProfileInfoById(device, info.id)
        assert (by_id.name, by_id.memorySizeMB) == (info.name, info.memorySizeMB)
        v1 = nv.nvmlDeviceGetGpuInstanceProfileInfo(device, info.constant, version=1)
        assert (v1.id, v1.memorySizeMB) == (info.id, info.memorySizeMB)


@pytest.mark.parametrize("board", SIMULATED)
def test_derived_figures_are_plausible(simulate: Simulate, board: str) -> None:
    """Larger placements have more memory, more slices have more multiprocessors, and no figure exceeds the GPU's."""
    session = simulate(board)
    gpu = session.gpu()
    profiles = gpu["profiles"]
    for one in profiles:
        assert 0 < one["memory_mib"] <= gpu["memory_mib"]
        assert 0 < one["multiprocessors"] <= gpu["multiprocessors"]
        assert one["multiprocessors"] % 2 == 0
        for other in profiles:
            if one["size"] > other["size"]:
                assert one["memory_mib"] > other["memory_mib"]
            if one["slices"] > other["slices"]:
                assert one["multiprocessors"] > other["multiprocessors"]
    rows = {row["name"]: row for row in description.load_boards()[board]["profiles"]}
    assert {p["name"] for p in profiles if p["derived"]} >= {
        name for name, row in rows.items() if row["memory_mib"] is None or row["multiprocessors"] is None
    }


@pytest.mark.parametrize("board", SIMULATED)
def test_life_of_every_placement(simulate: Simulate, board: str) -> None:
    session = simulate(board)
    device = session.handle()
    gpu_uuid = nv.nvmlDeviceGetUUID(device)
    seen: t.Dict[int, t.Tuple[int, int]] = {}
    for profile in profiles_of(device).values():
        for start, size in placements_of(device, profile.id):
            gi = create_at(device, profile.id, start, size)
            info = nv.nvmlGpuInstanceGetInfo(gi)
            assert (info.profileId, info.placement.start, info.placement.size) == (profile.id, start, size)
            assert seen.setdefault(info.id, (start, size)) == (start, size), "an id names one place"
            assert address(info.device) == address(device)
            assert nv.nvmlGpuInstanceGetInfo(nv.nvmlDeviceGetGpuInstanceById(device, info.id)).id == info.id
            assert mig_devices(device) == []

            whole = max(compute_profiles(gi).values(), key=lambda candidate: candidate.multiprocessorCount)
            assert whole.multiprocessorCount == profile.multiprocessorCount
            assert whole.sliceCount == profile.sliceCount
            ci = nv.nvmlGpuInstanceCreateComputeInstance(gi, whole.id)
            made = nv.nvmlComputeInstanceGetInfo_v2(ci)
            assert (made.id, made.profileId) == (0, whole.id)
            assert (made.placement.start, made.placement.size) == (0, whole.sliceCount)

            [mig] = mig_devices(device)
            name = profile.name.replace("MIG ", "")
            assert nv.nvmlDeviceGetName(mig).endswith(" MIG " + name)
            assert nv.nvmlDeviceGetGpuInstanceId(mig) == info.id
            assert nv.nvmlDeviceGetComputeInstanceId(mig) == 0
            assert nv.nvmlDeviceIsMigDeviceHandle(mig).value == 1
            attributes = nv.nvmlDeviceGetAttributes_v2(mig)
            assert attributes.multiprocessorCount == profile.multiprocessorCount
            assert attributes.memorySizeMB == profile.memorySizeMB
            assert attributes.gpuInstanceSliceCount == attributes.computeInstanceSliceCount == profile.sliceCount
            mig_uuid = nv.nvmlDeviceGetUUID(mig)
            assert mig_uuid == "MIG-%s" % uuid.uuid5(uuid.UUID(gpu_uuid[4:]), "%d/0" % info.id)
            assert nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByUUID(mig_uuid)) == mig_uuid
            parent = nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
            assert nv.nvmlDeviceGetUUID(parent) == gpu_uuid

            assert code_of(nv.nvmlGpuInstanceDestroy, gi) == nv.NVML_ERROR_IN_USE
            nv.nvmlComputeInstanceDestroy(ci)
            nv.nvmlGpuInstanceDestroy(gi)
            for stale, call in (
                (mig, nv.nvmlDeviceGetUUID),
                (ci, nv.nvmlComputeInstanceDestroy),
                (gi, nv.nvmlGpuInstanceGetInfo),
            ):
                assert code_of(call, stale) == nv.NVML_ERROR_INVALID_ARGUMENT
            assert code_of(nv.nvmlDeviceGetHandleByUUID, mig_uuid) == nv.NVML_ERROR_NOT_FOUND
            assert code_of(nv.nvmlDeviceGetGpuInstanceById, device, info.id) == nv.NVML_ERROR_NOT_FOUND
    assert gpu_instances(device) == {}


def test_a_handle_does_not_outlive_its_instance(simulate: Simulate) -> None:
    """An instance that is recreated at the same placement has the same id and UUID, but a different handle."""
    device = simulate("A100-80GB").handle()
    first = create_at(device, 9, 4, 4)
    nv.nvmlGpuInstanceDestroy(first)
    second = create_at(device, 9, 4, 4)
    assert nv.nvmlGpuInstanceGetInfo(second).id == 1
    assert code_of(nv.nvmlGpuInstanceGetInfo, first) == nv.NVML_ERROR_INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("board", "profile", "expected"),
    [
        ("A100-80GB", "1g.10gb", {"1g.10gb": (0, 1, 14, 1)}),
        ("A100-80GB", "3g.40gb", {"1c.3g.40gb": (0, 1, 14, 3), "2c.3g.40gb": (1, 2, 28, 1), "3g.40gb": (2, 3, 42, 1)}),
        ("A100-80GB", "4g.40gb", {"1c.4g.40gb": (0, 1, 14, 4), "2c.4g.40gb": (1, 2, 28, 2), "4g.40gb": (3, 4, 56, 1)}),
        (
            "A100-80GB",
            "7g.80gb",
            {
                "1c.7g.80gb": (0, 1, 14, 7),
                "2c.7g.80gb": (1, 2, 28, 3),
                "3c.7g.80gb": (2, 3, 42, 2),
                "4c.7g.80gb": (3, 4, 56, 1),
                "7g.80gb": (4, 7, 98, 1),
            },
        ),
        ("A100-80GB", "1g.20gb", {"1g.20gb": (0, 1, 14, 1)}),
        ("H100-80GB", "1g.20gb", {"1c.1g.20gb": (0, 1, 16, 1), "1g.20gb": (7, 1, 26, 1)}),
        ("H100-80GB", "3g.40gb", {"1c.3g.40gb": (0, 1, 16, 3), "2c.3g.40gb": (1, 2, 32, 1), "3g.40gb": (2, 3, 60, 1)}),
        ("A30-24GB", "2g.12gb", {"1c.2g.12gb": (0, 1, 14, 2), "2g.12gb": (1, 2, 28, 1)}),
    ],
)
def test_compute_instance_profiles(
    simulate: Simulate, board: str, profile: str, expected: t.Dict[str, t.Tuple[int, int, int, int]]
) -> None:
    """Return id, slices, multiprocessors and count by name."""
    device = simulate(board).handle()
    gi = nv.nvmlDeviceCreateGpuInstance(device, profiles_of(device)[profile].id)
    found = compute_profiles(gi)
    assert {n: (p.id, p.sliceCount, p.multiprocessorCount, p.instanceCount) for n, p in found.items()} == expected
    for info in found.values():
        v1 = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, info.constant, 0, version=1)
        assert (v1.id, v1.multiprocessorCount) == (info.id, info.multiprocessorCount)
        assert nv.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, info.id) == info.instanceCount


def test_several_compute_instances(simulate: Simulate) -> None:
    """1c, 2c and 3c in one 7g are three MIG devices that share its memory. A fourth instance does not fit."""
    session = simulate("A100-80GB")
    device = session.handle()
    gi = nv.nvmlDeviceCreateGpuInstance(device, profiles_of(device)["7g.80gb"].id)
    for profile_id in (0, 1, 2):
        nv.nvmlGpuInstanceCreateComputeInstance(gi, profile_id)
    assert code_of(nv.nvmlGpuInstanceCreateComputeInstance, gi, 3) == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert [nv.nvmlDeviceGetName(mig).rsplit(" ", 1)[1] for mig in mig_devices(device)] == [
        "1c.7g.80gb",
        "2c.7g.80gb",
        "3c.7g.80gb",
    ]
    assert len({nv.nvmlDeviceGetUUID(mig) for mig in mig_devices(device)}) == 3
    occupied = [
        unit
        for ci in session.gpu()["gpu_instances"][0]["compute_instances"]
        for unit in range(ci["start"], ci["start"] + ci["size"])
    ]
    assert len(occupied) == len(set(occupied)) == 6
    assert nv.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0) == 1


def test_compute_instance_at_a_placement(simulate: Simulate) -> None:
    device = simulate("A100-80GB").handle()
    gi = nv.nvmlDeviceCreateGpuInstance(device, profiles_of(device)["4g.40gb"].id)
    count = ctypes.c_uint()
    nv.nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 1, None, ctypes.byref(count))
    places = (nv.c_nvmlComputeInstancePlacement_t * count.value)()
    nv.nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 1, places, ctypes.byref(count))
    assert [(place.start, place.size) for place in places] == [(0, 2), (2, 2)]
    nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 1, ctypes.byref(places[1]))
    assert (
        code_of(nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement, gi, 1, ctypes.byref(places[1]))
        == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    )
    crooked = nv.c_nvmlComputeInstancePlacement_t(1, 2)
    assert (
        code_of(nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement, gi, 1, ctypes.byref(crooked))
        == nv.NVML_ERROR_INVALID_ARGUMENT
    )
    ci = nv.nvmlGpuInstanceGetComputeInstanceById(gi, 0)
    assert nv.nvmlComputeInstanceGetInfo_v2(ci).placement.start == 2
    assert code_of(nv.nvmlGpuInstanceGetComputeInstanceById, gi, 1) == nv.NVML_ERROR_NOT_FOUND


def test_versioned_structs(simulate: Simulate) -> None:
    """Version 3, which pynvml does not wrap, and a version that does not exist."""

    class ProfileInfoV3(ctypes.Structure):
        _fields_ = [
            (name, ctypes.c_uint)
            for name in (
                "version",
                "id",
                "slices",
                "instances",
                "multiprocessors",
                "copy",
                "dec",
                "enc",
                "jpeg",
                "ofa",
            )
        ] + [("memory", ctypes.c_ulonglong), ("name", ctypes.c_char * 96), ("capabilities", ctypes.c_uint)]

    assert nv.nvmlGpuInstanceProfileInfo_v2 == 0x02000098
    assert nv.nvmlComputeInstanceProfileInfo_v2 == 0x02000088
    device = simulate("RTX-PRO-6000-Blackwell-96GB").handle()
    ask = nv._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstanceProfileInfoV")
    info = ProfileInfoV3(version=ctypes.sizeof(ProfileInfoV3) | 3 << 24)
    assert ask(device, nv.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX, ctypes.byref(info)) == 0
    assert (info.name, info.id, info.memory, info.capabilities) == (b"MIG 1g.24gb+gfx", 47, 24192, 2)
    info.version += 1
    assert ask(device, nv.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX, ctypes.byref(info)) == nv.NVML_ERROR_INVALID_ARGUMENT


def test_several_boards_in_one_node(simulate: Simulate) -> None:
    session = simulate("A100-80GB", "A30-24GB", "T4", "H100-80GB")
    assert nv.nvmlDeviceGetCount() == 4
    names = [nv.nvmlDeviceGetName(session.handle(index)) for index in range(4)]
    assert names == ["NVIDIA A100-SXM4-80GB", "NVIDIA A30", "Tesla T4", "NVIDIA H100 80GB HBM3"]
    assert [len(profiles_of(session.handle(index))) for index in range(4)] == [7, 5, 0, 7]
    assert len({nv.nvmlDeviceGetUUID(session.handle(index)) for index in range(4)}) == 4
    nv.nvmlDeviceCreateGpuInstance(session.handle(1), 14)
    assert [len(session.gpu(index)["gpu_instances"]) for index in range(4)] == [0, 1, 0, 0]


def test_a_gpu_without_mig(simulate: Simulate) -> None:
    device = simulate("T4").handle()
    assert code_of(nv.nvmlDeviceGetMigMode, device) == nv.NVML_ERROR_NOT_SUPPORTED
    assert code_of(nv.nvmlDeviceSetMigMode, device, 1) == nv.NVML_ERROR_NOT_SUPPORTED
    assert code_of(nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0) == nv.NVML_ERROR_NOT_SUPPORTED
    assert code_of(nv.nvmlDeviceCreateGpuInstance, device, 0) == nv.NVML_ERROR_NOT_SUPPORTED
    assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 0
    assert code_of(nv.nvmlDeviceGetMigDeviceHandleByIndex, device, 0) == nv.NVML_ERROR_NOT_SUPPORTED


def test_finding_gpus(simulate: Simulate) -> None:
    session = simulate("A100-80GB", "A100-80GB")
    shown = session.gpu(1)
    device = session.handle(1)
    for found in (
        nv.nvmlDeviceGetHandleByUUID(shown["uuid"]),
        nv.nvmlDeviceGetHandleByUUID(shown["uuid"].upper()),
        nv.nvmlDeviceGetHandleBySerial(shown["serial"]),
        nv.nvmlDeviceGetHandleByPciBusId(shown["pci_bus_id"]),
        nv.nvmlDeviceGetHandleByPciBusId("0000:0f:00.0"),
        nv.nvmlDeviceGetHandleByPciBusId("0F:00"),
    ):
        assert nv.nvmlDeviceGetIndex(found) == 1
        assert address(found) == address(device)
    for call, argument, expected in (
        (nv.nvmlDeviceGetHandleByIndex, 2, nv.NVML_ERROR_INVALID_ARGUMENT),
        (nv.nvmlDeviceGetHandleByUUID, "GPU-nothing", nv.NVML_ERROR_NOT_FOUND),
        (nv.nvmlDeviceGetHandleByPciBusId, "00000000:AA:00.0", nv.NVML_ERROR_NOT_FOUND),
        (nv.nvmlDeviceGetHandleByPciBusId, "nonsense", nv.NVML_ERROR_INVALID_ARGUMENT),
        (nv.nvmlDeviceGetHandleByPciBusId, "0F:00.0 and more", nv.NVML_ERROR_INVALID_ARGUMENT),
    ):
        assert code_of(call, argument) == expected
