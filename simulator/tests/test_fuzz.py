# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random calls with valid and invalid arguments, and random states, cause no crash, hang or invalid state."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import signal
import typing as t

import pynvml as nv
import pytest
from conftest import (
    SANITIZED,
    address,
    code_of,
    create_at,
    gpu_instances,
    mig_devices,
    placements_of,
    profiles_of,
    sound,
)
from nvsim.library import Node, NodeError, library

Simulate = t.Callable[..., t.Any]

# Codes that MIG functions may return. Any other code is a defect.
CODES = {0, 2, 3, 4, 6, 7, 13, 19, 23, 25}


class Fuzz:
    """Handles seen so far, random handles, and a buffer large enough for any output."""

    def __init__(self, session: t.Any, seed: int) -> None:
        self.choose = random.Random(seed)
        self.session = session
        self.handles: t.Dict[str, t.List[int]] = {"device": [], "gi": [], "ci": []}
        for index in range(4):
            self.handles["device"].append(address(session.handle(index)) or 0)
        self.buffer = (ctypes.c_char * 4096)()
        self.out = ctypes.c_uint64()
        self.count = ctypes.c_uint()

    def handle(self, kind: str) -> ctypes.c_void_p:
        known = self.handles[kind]
        roll = self.choose.random()
        if known and roll < 0.9:
            return ctypes.c_void_p(self.choose.choice(known[-12:]))
        if roll < 0.93:
            return ctypes.c_void_p(None)
        if roll < 0.96:
            other = self.choose.choice([h for many in self.handles.values() for h in many])
            return ctypes.c_void_p(other ^ 1 << self.choose.randrange(64))
        return ctypes.c_void_p(self.choose.getrandbits(64))

    def small(self, *likely: int) -> int:
        if self.choose.random() < 0.9:
            return self.choose.choice(likely)
        return self.choose.choice([0xFFFFFFFF, 0x7FFFFFFF, 255, 18, 9, self.choose.getrandbits(32)])

    def output(self, of: t.Any = None) -> t.Any:
        if self.choose.random() < 0.03:
            return None
        return ctypes.byref(self.buffer if of is None else of)

    def place(self) -> t.Any:
        if self.choose.random() < 0.03:
            return None
        return ctypes.byref(nv.c_nvmlGpuInstancePlacement_t(self.small(*range(8)), self.small(1, 2, 3, 4, 8)))

    def versioned(self, *tags: int) -> t.Any:
        ctypes.memset(self.buffer, 0, 4)
        ctypes.c_uint32.from_buffer(self.buffer).value = self.small(*tags)
        return ctypes.byref(self.buffer)

    def is_live(self, gi: int) -> bool:
        return bool(library().nvmlGpuInstanceGetInfo(ctypes.c_void_p(gi), self.buffer) == 0)

    def step(self) -> None:
        profile = self.small(19, 20, 15, 14, 9, 5, 0, 21, 6)
        made: t.Optional[str] = None
        live = [gi for gi in self.handles["gi"][-12:] if self.is_live(gi)]
        name, arguments = self.choose.choice(
            [
                (
                    "GpuInstanceCreateComputeInstance",
                    [ctypes.c_void_p(self.choose.choice(live or [0])), self.small(0, 1, 2, 4), self.output(self.out)],
                ),
                ("DeviceGetMigMode", [self.handle("device"), self.output(), self.output(self.count)]),
                ("DeviceSetMigMode", [self.handle("device"), self.small(1, 1, 1, 0), self.output()]),
                ("DeviceGetGpuInstanceProfileInfo", [self.handle("device"), self.small(*range(18)), self.output()]),
                (
                    "DeviceGetGpuInstanceProfileInfoV",
                    [self.handle("device"), self.small(*range(18)), self.versioned(0x02000098, 0x03000098)],
                ),
                ("DeviceGetGpuInstanceProfileInfoByIdV", [self.handle("device"), profile, self.versioned(0x02000098)]),
                (
                    "DeviceGetGpuInstancePossiblePlacements_v2",
                    [self.handle("device"), profile, self.output(), self.output(self.count)],
                ),
                ("DeviceGetGpuInstanceRemainingCapacity", [self.handle("device"), profile, self.output()]),
                ("DeviceCreateGpuInstance", [self.handle("device"), profile, self.output(self.out)]),
                (
                    "DeviceCreateGpuInstanceWithPlacement",
                    [self.handle("device"), profile, self.place(), self.output(self.out)],
                ),
                ("GpuInstanceDestroy", [self.handle("gi")]),
                ("DeviceGetGpuInstances", [self.handle("device"), profile, self.output(), self.output(self.count)]),
                ("DeviceGetGpuInstanceById", [self.handle("device"), self.small(*range(15)), self.output(self.out)]),
                ("GpuInstanceGetInfo", [self.handle("gi"), self.output()]),
                (
                    "GpuInstanceGetComputeInstanceProfileInfo",
                    [self.handle("gi"), self.small(*range(9)), self.small(0), self.output()],
                ),
                (
                    "GpuInstanceGetComputeInstanceProfileInfoV",
                    [self.handle("gi"), self.small(*range(9)), self.small(0), self.versioned(0x02000088, 0x0300008C)],
                ),
                (
                    "GpuInstanceGetComputeInstanceRemainingCapacity",
                    [self.handle("gi"), self.small(*range(9)), self.output()],
                ),
                (
                    "GpuInstanceGetComputeInstancePossiblePlacements",
                    [self.handle("gi"), self.small(*range(9)), self.output(), self.output(self.count)],
                ),
                (
                    "GpuInstanceCreateComputeInstance",
                    [self.handle("gi"), self.small(0, 1, 2, 3, 4, 7), self.output(self.out)],
                ),
                (
                    "GpuInstanceCreateComputeInstanceWithPlacement",
                    [self.handle("gi"), self.small(0, 1, 2), self.place(), self.output(self.out)],
                ),
                ("ComputeInstanceDestroy", [self.handle("ci")]),
                (
                    "GpuInstanceGetComputeInstances",
                    [self.handle("gi"), self.small(*range(9)), self.output(), self.output(self.count)],
                ),
                (
                    "GpuInstanceGetComputeInstanceById",
                    [self.handle("gi"), self.small(*range(8)), self.output(self.out)],
                ),
                ("ComputeInstanceGetInfo_v2", [self.handle("ci"), self.output()]),
                (
                    "DeviceGetMigDeviceHandleByIndex",
                    [self.handle("device"), self.small(*range(7)), self.output(self.out)],
                ),
                ("DeviceGetDeviceHandleFromMigDeviceHandle", [self.handle("device"), self.output(self.out)]),
                ("DeviceGetAttributes_v2", [self.handle("device"), self.output()]),
                ("DeviceIsMigDeviceHandle", [self.handle("device"), self.output()]),
                ("DeviceGetGpuInstanceId", [self.handle("device"), self.output()]),
                ("DeviceGetUUID", [self.handle("device"), self.output(), self.small(80, 96, 10)]),
                ("DeviceGetName", [self.handle("device"), self.output(), self.small(96, 64, 5)]),
                ("DeviceGetMemoryInfo", [self.handle("device"), self.output()]),
                ("DeviceGetMemoryInfo_v2", [self.handle("device"), self.versioned(0x02000028, 2)]),
                ("DeviceGetGpuFabricInfo", [self.handle("device"), self.output()]),
                ("DeviceGetGpuFabricInfoV", [self.handle("device"), self.versioned(0x02000024, 0x03000028)]),
                (
                    "DeviceGetProcessUtilization",
                    [self.handle("device"), self.output(), self.output(self.count), ctypes.c_ulonglong(0)],
                ),
                ("DeviceGetProcessesUtilizationInfo", [self.handle("device"), self.versioned(0x01000018)]),
            ]
        )
        self.out.value = 0
        code = library()["nvml" + name](*arguments)
        assert code in CODES, (name, code)
        if code == 0 and self.out.value:
            if name in ("DeviceCreateGpuInstance", "DeviceCreateGpuInstanceWithPlacement", "DeviceGetGpuInstanceById"):
                made = "gi"
            elif "ComputeInstance" in name:
                made = "ci"
            else:
                made = "device"
            self.handles[made].append(self.out.value)


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(simulate: Simulate, seed: int) -> None:
    session = simulate("A100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB", "T4")
    fuzz = Fuzz(session, seed)
    for step in range(2500 if SANITIZED else 4000):
        fuzz.step()
        if step % 100 == 0:
            sound(session.node)
        if step % 400 == 399:
            session.node.reset(fuzz.choose.randrange(3))
    sound(session.node)
    assert len(fuzz.handles["gi"]) > 5  # some calls must succeed
    assert len(fuzz.handles["ci"]) > 5


HEADER = 24  # magic, layout, size, changes: test_state.py damages them
EXTREMES = (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x10000, 256, 255, 65, 64, 33, 32, 19, 18, 17, 16, 9, 8, 7, 1, 0)


def damaged(whole: bytes, choose: random.Random) -> bytes:
    """Return a state of the correct size with random bytes, numbers or a random range."""
    state = bytearray(whole)
    for _each in range(choose.choice((1, 1, 2, 10, 200))):
        at = choose.randrange(HEADER, len(state) - 4)
        roll = choose.random()
        if roll < 0.4:
            state[at] = choose.randrange(256)
        elif roll < 0.8:
            at -= at % 4
            state[at : at + 4] = choose.choice(EXTREMES).to_bytes(4, "little")
        else:
            end = min(len(state), at + choose.choice((8, 64, 512)))
            state[at:end] = bytes([choose.choice((0xFF, 0x41, 0x01))]) * (end - at)
    return bytes(state)


def attempt(call: t.Callable[..., t.Any], *arguments: t.Any) -> None:
    """Show the state. It may fail, and the result may be invalid UTF-8 or JSON."""
    try:
        call(*arguments)
    except (nv.NVMLError, NodeError, ValueError):
        pass


def visit(node: Node, states: t.Sequence[bytes]) -> None:
    """Call all functions that read or change a state."""
    nv.nvmlShutdown()  # the parent's
    for state in states:
        node.state.write_bytes(state)
        attempt(node.show)
        if code_of(nv.nvmlInit):
            continue
        for index in range(nv.nvmlDeviceGetCount()):
            device = nv.nvmlDeviceGetHandleByIndex(index)
            for call in CALLS:
                attempt(call, device)
        attempt(node.attach, os.getpid(), 0)
        attempt(node.detach, os.getpid())
        attempt(node.reboot)
        nv.nvmlShutdown()


def places(device: t.Any) -> None:
    for profile in (0, 5, 9, 14, 15, 19, 20):
        attempt(nv.nvmlDeviceGetGpuInstanceRemainingCapacity, device, profile)
        for start, size in placements_of(device, profile):
            attempt(create_at, device, profile, start, size)


def instances(device: t.Any) -> None:
    for gi in gpu_instances(device).values():
        for constant in range(nv.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            attempt(nv.nvmlGpuInstanceGetComputeInstanceProfileInfo, gi, constant, 0)
            attempt(nv.nvmlGpuInstanceCreateComputeInstance, gi, constant)


def devices(device: t.Any) -> None:
    for mig in mig_devices(device):
        for call in CALLS[:9]:
            attempt(call, mig)


CALLS: t.Tuple[t.Callable[..., t.Any], ...] = (
    nv.nvmlDeviceGetUUID,
    nv.nvmlDeviceGetName,
    nv.nvmlDeviceGetPciInfo,
    nv.nvmlDeviceGetMemoryInfo,
    nv.nvmlDeviceGetBAR1MemoryInfo,
    nv.nvmlDeviceGetAttributes_v2,
    nv.nvmlDeviceGetComputeRunningProcesses_v3,
    nv.nvmlDeviceGetMigMode,
    nv.nvmlDeviceGetSerial,
    nv.nvmlDeviceGetVbiosVersion,
    nv.nvmlDeviceGetBoardPartNumber,
    nv.nvmlDeviceGetPowerUsage,
    nv.nvmlDeviceGetTotalEnergyConsumption,
    lambda device: nv.nvmlDeviceGetProcessUtilization(device, 0),
    lambda device: nv.nvmlDeviceGetGpuFabricInfo(device, ctypes.byref(nv.c_nvmlGpuFabricInfo_t())),
    lambda device: nv.nvmlSystemGetProcessName(os.getpid()),
    lambda device: nv.nvmlSystemGetDriverVersion(),
    profiles_of,
    places,
    instances,
    devices,
    lambda device: nv.nvmlDeviceSetMigMode(device, 0),
    lambda device: nv.nvmlDeviceSetMigMode(device, 1),
)


@pytest.mark.parametrize("seed", range(4))
def test_random_states(simulate: Simulate, seed: int) -> None:
    """Run in a child process, so that a crash fails only one test. A random fault may kill the process."""
    session = simulate("A100-80GB", "GB200-186GB", "T4")
    nv.nvmlGpuInstanceCreateComputeInstance(create_at(session.handle(), 9, 4, 4), 0)
    session.node.attach(os.getpid(), gpu=0, gi=1)
    session.node.attach(os.getpid(), gpu=2)
    session.node.fault("gpuReset", nth=5)
    session.node.latency("gpuReset", 1)
    whole = session.node.state.read_bytes()
    choose = random.Random(seed)
    for _batch in range(4):
        states = [damaged(whole, choose) for _each in range(10 if SANITIZED else 40)]
        child = multiprocessing.get_context("fork").Process(target=visit, args=(session.node, states))
        child.start()
        child.join()
        session.node.state.write_bytes(whole)
        assert child.exitcode in (0, -signal.SIGKILL)
        sound(session.node)
