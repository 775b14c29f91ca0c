# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG mode, resets and reboots, privileges, and processes that block a change."""

from __future__ import annotations

import ctypes
import typing as t

import pynvml as nv
import pytest
from conftest import code_of, create_at, gpu_instances, mig_devices
from nvsim.library import NodeError

Simulate = t.Callable[..., t.Any]
Sleeper = t.Callable[[], t.Any]

OK, IN_USE, RESET_REQUIRED = nv.NVML_SUCCESS, nv.NVML_ERROR_IN_USE, nv.NVML_ERROR_RESET_REQUIRED


def mode(session: t.Any) -> t.List[int]:
    return t.cast("t.List[int]", nv.nvmlDeviceGetMigMode(session.handle()))


def set_mode(session: t.Any, enabled: int) -> int:
    """Return the activation status."""
    return t.cast(int, nv.nvmlDeviceSetMigMode(session.handle(), enabled))


def fields(device: t.Any, *ids: int) -> t.List[t.Tuple[int, int]]:
    return [(value.nvmlReturn, value.value.uiVal) for value in nv.nvmlDeviceGetFieldValues(device, list(ids))]


def reset_code(session: t.Any) -> int:
    try:
        session.node.reset(0)
    except NodeError as error:
        return error.code
    return 0


def one_mig_device(device: t.Any) -> t.Any:
    gi = create_at(device, 9, 4, 4)
    nv.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    return gi


@pytest.mark.parametrize("board", ["A100-80GB", "H100-80GB"])
def test_idle_gpu_changes_immediately(simulate: Simulate, board: str) -> None:
    session = simulate(board, mig=False)
    assert mode(session) == [0, 0]
    assert set_mode(session, 1) == OK
    assert mode(session) == [1, 1]
    assert set_mode(session, 1) == OK
    assert set_mode(session, 0) == OK
    assert mode(session) == [0, 0]
    assert code_of(nv.nvmlDeviceSetMigMode, session.handle(), 2) == nv.NVML_ERROR_INVALID_ARGUMENT


def test_ampere_with_a_client_stays_pending(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB", mig=False)
    client = sleeper()
    session.node.attach(client.pid, 0, kind="client")
    assert set_mode(session, 1) == IN_USE
    assert mode(session) == [0, 1]
    assert reset_code(session) == IN_USE
    client.kill()
    client.wait()
    assert reset_code(session) == OK
    assert mode(session) == [1, 1]


def test_pending_mode_can_be_canceled(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB", mig=False)
    session.node.attach(sleeper().pid, 0, kind="client")
    assert set_mode(session, 1) == IN_USE
    assert set_mode(session, 0) == OK
    assert mode(session) == [0, 0]


def test_hopper_with_a_client_does_not_change(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("H100-80GB", mig=False)
    session.node.attach(sleeper().pid, 0)
    assert code_of(set_mode, session, 1) == IN_USE
    assert mode(session) == [0, 0]


@pytest.mark.parametrize("activation", ["auto", "reset"])
@pytest.mark.parametrize("board", ["A100-80GB", "H100-80GB"])
def test_mode_is_not_disabled_with_instances(simulate: Simulate, board: str, activation: str) -> None:
    session = simulate(board, activation=activation)
    session.node.reset(0)
    gi = create_at(session.handle(), 9, 4, 4)
    assert code_of(set_mode, session, 0) == IN_USE
    assert mode(session) == [1, 1]
    nv.nvmlGpuInstanceDestroy(gi)
    waits = board == "A100-80GB" and activation == "reset"
    assert set_mode(session, 0) == (RESET_REQUIRED if waits else OK)
    assert mode(session) == ([1, 0] if waits else [0, 0])


def test_activation_by_reset(simulate: Simulate) -> None:
    session = simulate("A100-80GB", mig=False, activation="reset")
    assert set_mode(session, 1) == RESET_REQUIRED
    assert mode(session) == [0, 1]
    assert reset_code(session) == OK
    assert mode(session) == [1, 1]
    one_mig_device(session.handle())
    assert reset_code(session) == OK
    assert gpu_instances(session.handle()) == {}


def test_activation_by_reboot(simulate: Simulate) -> None:
    session = simulate("A100-80GB", mig=False, activation="reboot")
    assert set_mode(session, 1) == RESET_REQUIRED
    assert reset_code(session) == nv.NVML_ERROR_NOT_SUPPORTED
    assert mode(session) == [0, 1]
    session.node.reboot()
    assert mode(session) == [1, 1]


@pytest.mark.parametrize(("board", "after"), [("A100-80GB", [1, 1]), ("H100-80GB", [0, 0])])
def test_reboot(simulate: Simulate, sleeper: Sleeper, board: str, after: t.List[int]) -> None:
    """Ampere keeps the mode, Hopper does not. Both lose instances and processes."""
    session = simulate(board)
    one_mig_device(session.handle())
    session.node.attach(sleeper().pid, 0, kind="client")
    session.node.reboot()
    assert mode(session) == after
    shown = session.gpu()
    assert (shown["gpu_instances"], shown["processes"]) == ([], [])
    assert session.node.show()["boots"] == 1


def test_field_values(simulate: Simulate) -> None:
    """184: mode changes need no reset. 199: profiles can be queried while the mode is off."""
    session = simulate("A100-80GB", "H100-80GB", "T4")
    assert fields(session.handle(0), 184, 199) == [(0, 0), (0, 1)]
    assert fields(session.handle(1), 184, 199) == [(0, 1), (0, 1)]
    assert [code for code, _value in fields(session.handle(2), 184, 199)] == [nv.NVML_ERROR_NOT_SUPPORTED] * 2


def test_an_old_driver_does_not_support_the_fields(simulate: Simulate) -> None:
    device = simulate("A100-80GB", driver="515.86.01").handle()
    assert [code for code, _value in fields(device, 184, 199)] == [nv.NVML_ERROR_NOT_SUPPORTED] * 2


def test_quirk_profiles_need_mig(simulate: Simulate) -> None:
    session = simulate("A100-80GB", mig=False, quirks=["profiles-need-mig"])
    device = session.handle()
    assert fields(device, 199) == [(0, 0)]
    assert code_of(nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0) == nv.NVML_ERROR_NOT_SUPPORTED
    assert (
        code_of(nv.nvmlDeviceGetGpuInstancePossiblePlacements, device, 9, None, ctypes.byref(ctypes.c_uint()))
        == nv.NVML_ERROR_NOT_SUPPORTED
    )
    set_mode(session, 1)
    assert code_of(nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0) == OK


def test_instances_need_the_mode(simulate: Simulate) -> None:
    device = simulate("A100-80GB", mig=False).handle()
    handles, count = (nv.c_nvmlGpuInstance_t * 8)(), ctypes.byref(ctypes.c_uint())
    for call in (
        lambda: nv.nvmlDeviceCreateGpuInstance(device, 9),
        lambda: nv.nvmlDeviceGetGpuInstances(device, 9, handles, count),
        lambda: nv.nvmlDeviceGetGpuInstanceById(device, 0),
        lambda: nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 9),
    ):
        assert code_of(call) == nv.NVML_ERROR_NOT_SUPPORTED
    assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 0
    assert code_of(nv.nvmlDeviceGetMigDeviceHandleByIndex, device, 0) == nv.NVML_ERROR_NOT_FOUND
    assert code_of(nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0) == OK


def test_privileges(simulate: Simulate) -> None:
    """Only root can manage instances. All users can list MIG devices."""
    session = simulate("A100-80GB")
    gi = one_mig_device(session.handle())
    ci = nv.nvmlGpuInstanceGetComputeInstanceById(gi, 0)
    session.become(1000)
    device = session.handle()
    count = ctypes.byref(ctypes.c_uint())
    place = ctypes.byref(nv.c_nvmlGpuInstancePlacement_t(0, 4))
    for call in (
        lambda: nv.nvmlDeviceSetMigMode(device, 0),
        lambda: nv.nvmlDeviceCreateGpuInstance(device, 9),
        lambda: nv.nvmlDeviceCreateGpuInstanceWithPlacement(device, 9, place),
        lambda: nv.nvmlDeviceGetGpuInstancePossiblePlacements(device, 9, None, count),
        lambda: nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 9),
        lambda: nv.nvmlDeviceGetGpuInstances(device, 9, (nv.c_nvmlGpuInstance_t * 8)(), count),
        lambda: nv.nvmlDeviceGetGpuInstanceById(device, 1),
        lambda: nv.nvmlGpuInstanceDestroy(gi),
        lambda: nv.nvmlGpuInstanceCreateComputeInstance(gi, 0),
        lambda: nv.nvmlGpuInstanceGetComputeInstanceById(gi, 0),
        lambda: nv.nvmlComputeInstanceDestroy(ci),
        lambda: nv.nvmlDeviceGetComputeRunningProcesses(device),
    ):
        assert code_of(call) == nv.NVML_ERROR_NO_PERMISSION
    assert mode(session) == [1, 1]
    [mig] = mig_devices(device)
    assert nv.nvmlDeviceGetUUID(mig).startswith("MIG-")
    assert nv.nvmlGpuInstanceGetInfo(gi).id == 1
    assert nv.nvmlDeviceGetComputeRunningProcesses(mig) == []


def test_processes_on_instances(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB")
    device = session.handle()
    gi = create_at(device, 9, 4, 4)
    cis = [nv.nvmlGpuInstanceCreateComputeInstance(gi, 0) for _each in range(2)]
    other = create_at(device, 9, 0, 4)
    nv.nvmlGpuInstanceCreateComputeInstance(other, 2)
    worker, painter, daemon, sharer = sleeper(), sleeper(), sleeper(), sleeper()
    session.node.attach(worker.pid, 0, 1, 1, memory_mib=1000, name="train")
    session.node.attach(painter.pid, 0, 2, kind="graphics")
    session.node.attach(sharer.pid, 0, 2, kind="mps")
    session.node.attach(daemon.pid, 0, kind="client")

    def seen(listing: t.Callable[..., t.Any], handle: t.Any) -> t.List[t.Tuple[int, int, int, int]]:
        return [(p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId) for p in listing(handle)]

    of_worker = (worker.pid, 1000 << 20, 1, 1)
    assert seen(nv.nvmlDeviceGetComputeRunningProcesses, device) == [of_worker]
    assert seen(nv.nvmlDeviceGetGraphicsRunningProcesses, device) == [(painter.pid, 0, 2, 0)]
    assert seen(nv.nvmlDeviceGetMPSComputeRunningProcesses, device) == [(sharer.pid, 0, 2, 0)]
    first, second, third = mig_devices(device)
    assert seen(nv.nvmlDeviceGetComputeRunningProcesses, first) == []
    assert seen(nv.nvmlDeviceGetComputeRunningProcesses, second) == [of_worker]
    assert seen(nv.nvmlDeviceGetComputeRunningProcesses, third) == []
    assert nv.nvmlSystemGetProcessName(worker.pid) == "train"
    assert nv.nvmlDeviceGetMemoryInfo(second).used == 1000 << 20

    assert code_of(nv.nvmlComputeInstanceDestroy, cis[1]) == IN_USE
    assert code_of(nv.nvmlComputeInstanceDestroy, cis[0]) == OK
    assert code_of(nv.nvmlGpuInstanceDestroy, gi) == IN_USE
    worker.kill()
    worker.wait()
    assert seen(nv.nvmlDeviceGetComputeRunningProcesses, device) == []
    assert code_of(nv.nvmlComputeInstanceDestroy, cis[1]) == OK
    assert code_of(nv.nvmlGpuInstanceDestroy, gi) == OK
    session.node.detach(painter.pid)
    session.node.detach(sharer.pid, 0)
    assert seen(nv.nvmlDeviceGetGraphicsRunningProcesses, device) == []


def test_process_lists_of_every_version(simulate: Simulate, sleeper: Sleeper) -> None:
    class V1(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong)]

    class V3(ctypes.Structure):
        _fields_ = [*V1._fields_, ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    session = simulate("A100-80GB", mig=False)
    workers = [sleeper(), sleeper()]
    for worker in workers:
        session.node.attach(worker.pid, 0, memory_mib=64)
    for suffix, layout in (("", V1), ("_v2", V3), ("_v3", V3)):
        ask = nv._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses" + suffix)
        count = ctypes.c_uint(0)
        assert ask(session.handle(), ctypes.byref(count), None) == nv.NVML_ERROR_INSUFFICIENT_SIZE
        assert count.value == 2
        found = (layout * 2)()
        assert ask(session.handle(), ctypes.byref(count), found) == OK
        assert [(entry.pid, entry.memory) for entry in found] == [(worker.pid, 64 << 20) for worker in workers]
        if layout is V3:
            assert {(entry.gi, entry.ci) for entry in found} == {(0xFFFFFFFF, 0xFFFFFFFF)}


def test_a_zombie_does_not_use_a_gpu(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB", mig=False)
    worker = sleeper()
    session.node.attach(worker.pid, 0)
    worker.kill()
    # Without a wait, the pid still exists after the signal was handled.
    while session.gpu()["processes"]:
        pass
    assert set_mode(session, 1) == OK


def test_invalid_attachments(simulate: Simulate, sleeper: Sleeper) -> None:
    session = simulate("A100-80GB", "A100-80GB")
    pid = sleeper().pid
    create_at(session.handle(), 9, 4, 4)
    for arguments, message in (
        ((pid, 2), "no such GPU"),
        ((2**31 - 1, 0), "no such process"),
        ((pid, 0), "MIG mode is on"),
        ((pid, 0, 2), "no such GPU instance"),
        ((pid, 0, 1), "no such compute instance"),
    ):
        with pytest.raises(NodeError, match=message):
            session.node.attach(*arguments)
    with pytest.raises(NodeError, match="not enough memory"):
        session.node.attach(pid, 0, kind="client", memory_mib=90000)
    with pytest.raises(NodeError, match="not attached"):
        session.node.detach(pid)
