# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state file is shared, atomic, and stays valid if a process is killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

import pynvml as nv
import pytest
from conftest import SANITIZED, code_of, create_at, gpu_instances, sound
from nvsim.library import Node, NodeError, library_path

Simulate = t.Callable[..., t.Any]

# Endless loop of writes: fills the GPU with 1g instances and empties it again.
WRITER = """
import pynvml as nv
nv.nvmlInit()
device = nv.nvmlDeviceGetHandleByIndex(%d)
print("ready", flush=True)
made = []
while True:
    try:
        gi = nv.nvmlDeviceCreateGpuInstance(device, 19)
        made.append((gi, nv.nvmlGpuInstanceCreateComputeInstance(gi, 0)))
    except nv.NVMLError_InsufficientResources:
        for gi, ci in made:
            nv.nvmlComputeInstanceDestroy(ci)
            nv.nvmlGpuInstanceDestroy(gi)
        made = []
"""


def writer(node: Node, index: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER % index], env=node.environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_killed_at_any_moment(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    moments = random.Random(1)
    for _round in range(8 if SANITIZED else 15):
        session.node.reset(0)
        victim = writer(session.node, 0)
        time.sleep(moments.random() / 20)
        victim.kill()
        assert victim.wait() == -signal.SIGKILL
        sound(session.node)
        session.node.reset(0)  # the lock is free, the node works
        assert gpu_instances(session.handle()) == {}


def test_many_processes_at_once(simulate: Simulate) -> None:
    """Two writers per GPU compete, and readers never get an inconsistent state."""
    session = simulate("A100-80GB", "A100-80GB")
    writers = [writer(session.node, index % 2) for index in range(4)]
    until = time.monotonic() + 2
    looks = 0
    while time.monotonic() < until:
        sound(session.node)
        for index in range(2):
            count = 0
            for number in range(7):
                try:
                    mig = nv.nvmlDeviceGetMigDeviceHandleByIndex(session.handle(index), number)
                    assert nv.nvmlDeviceGetUUID(mig).startswith("MIG-")
                    count += 1
                except (nv.NVMLError_NotFound, nv.NVMLError_InvalidArgument):
                    pass  # destroyed between two calls
            assert count <= 7
        looks += 1
    alive = [process.poll() for process in writers]
    for process in writers:
        process.kill()
        process.wait()
    # The other writer can destroy this instance only if handles were confused.
    assert alive == [None] * 4
    assert looks > 3
    assert session.node.show()["changes"] > 100
    sound(session.node)


def test_many_threads_on_one_gpu(simulate: Simulate) -> None:
    """A placement is allocated only once, in any order of the threads."""
    session = simulate("A100-80GB")
    device = session.handle()
    results: t.List[int] = []

    def grab() -> None:
        for start in range(7):
            results.append(code_of(create_at, device, 19, start, 1))

    threads = [threading.Thread(target=grab) for _each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0] * 7 + [nv.NVML_ERROR_INSUFFICIENT_RESOURCES] * 49
    sound(session.node)


def test_writes_of_another_process_are_visible_immediately(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    program = "import pynvml as nv; nv.nvmlInit(); nv.nvmlDeviceCreateGpuInstance(nv.nvmlDeviceGetHandleByIndex(0), 9)"
    subprocess.run([sys.executable, "-c", program], env=session.node.environment(), check=True)
    assert list(gpu_instances(session.handle())) == [1]


def test_the_sanitizers_are_loaded() -> None:
    assert ("libasan" in Path("/proc/self/maps").read_text()) is SANITIZED
    assert (b"__asan_report_store4" in library_path().read_bytes()) is SANITIZED


def test_fork(simulate: Simulate) -> None:
    """A forked child can use the parent's handles."""
    session = simulate("A100-80GB")
    gi = create_at(session.handle(), 9, 4, 4)

    def child() -> None:
        nv.nvmlGpuInstanceDestroy(gi)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert gpu_instances(session.handle()) == {}


def test_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a node the library behaves as without a kernel driver."""
    monkeypatch.setenv("NVSIM_STATE", str(tmp_path / "state"))
    assert code_of(nv.nvmlInit) == nv.NVML_ERROR_DRIVER_NOT_LOADED
    with pytest.raises(NodeError, match="No such file"):
        Node(tmp_path).show()


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_damaged_state(simulate: Simulate, damage: t.Optional[bytes]) -> None:
    """A file that is not a state, or from another build, is rejected."""
    session = simulate("A100-80GB")
    nv.nvmlShutdown()
    whole = session.node.state.read_bytes()
    for data in [damage] if damage is not None else [whole[:-1], whole + b"x", whole[:8] + b"\0\0\0\0" + whole[12:]]:
        session.node.state.write_bytes(data)
        assert code_of(nv.nvmlInit) in (nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH, nv.NVML_ERROR_DRIVER_NOT_LOADED)
        with pytest.raises(NodeError):
            session.node.show()
    session.node.state.write_bytes(whole)
    nv.nvmlInit()


def test_initializations_are_counted(simulate: Simulate) -> None:
    simulate("A100-80GB")
    nv.nvmlInit()
    nv.nvmlShutdown()
    assert nv.nvmlDeviceGetCount() == 1
    nv.nvmlShutdown()
    assert code_of(nv.nvmlDeviceGetCount) == nv.NVML_ERROR_UNINITIALIZED
    assert code_of(nv.nvmlShutdown) == nv.NVML_ERROR_UNINITIALIZED
    nv.nvmlInit()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_can_read_but_not_write(simulate: Simulate) -> None:
    """A user without write permission on the state can query the node, but not change it."""
    session = simulate("A100-80GB")
    program = """if True:
        import os, sys
        import pynvml as nv
        nv.nvmlInit()  # what this needs of the file system may be root's
        nv.nvmlShutdown()
        os.setuid(65534)
        nv.nvmlInit()
        device = nv.nvmlDeviceGetHandleByIndex(0)
        assert nv.nvmlDeviceGetMigMode(device) == [1, 1]
        try:
            nv.nvmlDeviceCreateGpuInstance(device, 9)
        except nv.NVMLError_NoPermission:
            sys.exit(7)
    """
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        node = Node(directory)
        shutil.copy(session.node.state, node.state)
        for uid in (None, 0):
            status = subprocess.run([sys.executable, "-c", program], env=node.environment(uid), check=False)
            assert status.returncode == 7
        assert node.show()["gpus"][0]["gpu_instances"] == []


def test_a_state_that_is_copied_in_place_is_read(simulate: Simulate) -> None:
    session = simulate("A100-80GB")
    empty = session.node.state.read_bytes()
    create_at(session.handle(), 9, 4, 4)
    assert list(gpu_instances(session.handle())) == [1]
    session.node.state.write_bytes(empty)
    assert gpu_instances(session.handle()) == {}
