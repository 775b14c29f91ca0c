# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults, delays, kills, and the trace of calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import typing as t

import pynvml as nv
import pytest
from conftest import code_of, create_at, gpu_instances

Simulate = t.Callable[..., t.Any]

CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def in_child(session: t.Any, *lines: str) -> int:
    """Return the exit status of a process that runs these lines with the variable `device`."""
    program = "\n".join(
        ["import pynvml as nv", "nv.nvmlInit()", "device = nv.nvmlDeviceGetHandleByIndex(0)", *lines, "print('alive')"]
    )
    return subprocess.run(
        [sys.executable, "-c", program], env=session.node.environment(), stdout=subprocess.DEVNULL, check=False
    ).returncode


def test_nth_call_fails_once(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    session.node.fault(CREATE, nth=2, code=nv.NVML_ERROR_INSUFFICIENT_RESOURCES)
    codes = [code_of(create_at, session.handle(), 19, start, 1) for start in (0, 1, 1, 2)]
    assert codes == [0, nv.NVML_ERROR_INSUFFICIENT_RESOURCES, 0, 0]
    assert len(gpu_instances(session.handle())) == 3
    [fault] = session.node.show()["faults"]
    assert (fault["seen"], fault["fired"]) == (2, True)


def test_always_and_after(simulate: Simulate) -> None:
    """A call can take effect and still fail, as if the response was lost."""
    session = simulate("A100-80GB")
    session.node.fault(CREATE, nth=2, always=True, code=nv.NVML_ERROR_TIMEOUT, action="return-after")
    codes = [code_of(create_at, session.handle(), 19, start, 1) for start in (0, 1, 2)]
    assert codes == [0, nv.NVML_ERROR_TIMEOUT, nv.NVML_ERROR_TIMEOUT]
    assert len(gpu_instances(session.handle())) == 3
    session.node.clear_faults()
    assert code_of(create_at, session.handle(), 19, 3, 1) == 0


def test_any_write_and_any_call(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    device = session.handle()
    session.node.fault("write", nth=2, code=nv.NVML_ERROR_IN_USE)
    gi = create_at(device, 9, 4, 4)
    assert nv.nvmlDeviceGetMigMode(device) == [1, 1]
    assert code_of(nv.nvmlGpuInstanceDestroy, gi) == nv.NVML_ERROR_IN_USE
    session.node.clear_faults()
    session.node.fault("*", nth=2, code=nv.NVML_ERROR_GPU_IS_LOST)
    assert code_of(nv.nvmlDeviceGetMigMode, device) == 0
    assert code_of(nv.nvmlDeviceGetUUID, device) == nv.NVML_ERROR_GPU_IS_LOST
    assert code_of(nv.nvmlDeviceGetUUID, device) == 0


def test_calls_are_counted_across_processes(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    session.node.fault("nvmlDeviceGetUUID", nth=3, code=nv.NVML_ERROR_UNKNOWN)
    assert code_of(nv.nvmlDeviceGetUUID, session.handle()) == 0
    assert in_child(session, "nv.nvmlDeviceGetUUID(device)") == 0
    assert code_of(nv.nvmlDeviceGetUUID, session.handle()) == nv.NVML_ERROR_UNKNOWN


def test_failed_initialization_has_no_effect(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    nv.nvmlShutdown()
    session.node.fault("nvmlInitWithFlags", code=nv.NVML_ERROR_DRIVER_NOT_LOADED)
    assert code_of(nv.nvmlInit) == nv.NVML_ERROR_DRIVER_NOT_LOADED
    assert code_of(nv.nvmlDeviceGetCount) == nv.NVML_ERROR_UNINITIALIZED
    nv.nvmlInit()
    assert nv.nvmlDeviceGetCount() == 1


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("during", 0), ("after", 1)])
def test_kill_around_a_write(simulate: Simulate, when: str, made: int) -> None:
    """After a kill, the node has its state before or after the write, and still works."""
    session = simulate("A100-80GB")
    session.node.fault("write", nth=2, action="kill-" + when)
    status = in_child(session, *["nv.nvmlDeviceCreateGpuInstance(device, 19)"] * 3)
    assert status == -signal.SIGKILL
    assert len(gpu_instances(session.handle())) == 1 + made
    session.node.clear_faults()
    nv.nvmlDeviceCreateGpuInstance(session.handle(), 19)
    assert len(gpu_instances(session.handle())) == 2 + made


def test_reset_can_fail(simulate: Simulate) -> None:
    from nvsim.library import NodeError

    session = simulate("A100-80GB")
    create_at(session.handle(), 9, 4, 4)
    session.node.fault("gpuReset", code=nv.NVML_ERROR_TIMEOUT)
    with pytest.raises(NodeError) as caught:
        session.node.reset(0)
    assert caught.value.code == nv.NVML_ERROR_TIMEOUT
    assert len(gpu_instances(session.handle())) == 1
    session.node.reset(0)
    assert gpu_instances(session.handle()) == {}


def test_latency_of_parallel_threads_overlaps(simulate: Simulate) -> None:
    """Eight GPUs converge in parallel: a delayed call holds no lock."""
    session = simulate(*["A100-80GB"] * 8)
    devices = [session.handle(index) for index in range(8)]
    session.node.latency("write", 100)

    def fill(device: t.Any) -> None:
        for start in range(3):
            create_at(device, 19, start, 1)

    started = time.monotonic()
    threads = [threading.Thread(target=fill, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = time.monotonic() - started
    assert [len(gpu_instances(device)) for device in devices] == [3] * 8
    # Sequential calls would take 2.4 s. A tighter bound would be unreliable on a busy machine.
    assert 0.3 <= passed < 2.4

    session.node.latency("write", 0)
    assert session.node.show()["latencies"] == []


def test_latency_adds_up_and_is_cleared(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    session.node.latency("nvmlDeviceGetUUID", 20)
    session.node.latency("*", 10)
    started = time.monotonic()
    nv.nvmlDeviceGetUUID(session.handle())
    assert time.monotonic() - started >= 0.04  # 30 ms, and 10 for the handle
    session.node.latency("nvmlDeviceGetUUID", 5)
    assert {x["function"]: x["microseconds"] for x in session.node.show()["latencies"]} == {
        "nvmlDeviceGetUUID": 5000,
        "*": 10000,
    }
    session.node.latency("", 0)
    assert session.node.show()["latencies"] == []


def test_trace(simulate: Simulate) -> None:
    session = simulate("A100-80GB", "A100-80GB")
    device = session.handle(1)
    assert session.node.calls() == []
    session.node.trace()
    create_at(device, 9, 4, 4)
    code_of(create_at, device, 9, 4, 4)
    code_of(nv.nvmlDeviceGetHandleByUUID, 'GPU-"\\\n')
    code_of(nv.nvmlDeviceGetBridgeChipInfo, device)
    nv.nvmlDeviceGetCount()
    made, refused, unknown, stub, count = session.node.calls()
    assert (made["function"], made["gpu"], made["result"], made["pid"]) == (CREATE, 1, 0, os.getpid())
    assert made["arguments"].endswith("profile_id=9 placement=4:4")
    assert refused["result"] == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert (unknown["result"], unknown["arguments"]) == (nv.NVML_ERROR_NOT_FOUND, "uuid=GPU-???")
    assert (stub["function"], stub["result"], stub["implemented"]) == ("nvmlDeviceGetBridgeChipInfo", 3, False)
    assert (count["gpu"], count["implemented"]) == (-1, True)
    session.node.trace(False)
    nv.nvmlDeviceGetCount()
    assert len(session.node.calls()) == 5
    session.node.clear_trace()
    assert session.node.calls() == []
