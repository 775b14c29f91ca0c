# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes for the simulator's tests, used in the test process through pynvml and raw NVML calls."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pynvml as nv
import pytest

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parent
sys.path[:0] = [str(HERE), str(SIMULATOR)]

from nvsim import description
from nvsim.library import Node, library

if "NVSIM_LIBRARY" not in os.environ:
    subprocess.run(["make", "-s", "-C", str(SIMULATOR)], check=True)
library()  # from now on, loading libnvidia-ml.so.1 by name gives the simulated library

SANITIZED = "sanitized" in os.environ.get("NVSIM_LIBRARY", "")
SIMULATED = sorted(board for board, known in description.load_boards().items() if description.simulable(known))


class Session:
    """A node on which NVML is initialized."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def handle(self, index: int = 0) -> t.Any:
        return nv.nvmlDeviceGetHandleByIndex(index)

    def become(self, uid: int) -> None:
        """Switch to another user for the simulated driver."""
        nv.nvmlShutdown()
        os.environ["NVSIM_UID"] = str(uid)
        nv.nvmlInit()

    def gpu(self, index: int = 0) -> t.Dict[str, t.Any]:
        """Return the output of nvsim for a GPU."""
        return t.cast("t.Dict[str, t.Any]", self.node.show()["gpus"][index])


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Callable[..., Session]]:
    """Create a node, initialize NVML on it, and shut it down after the test."""
    initialised = []

    def make(*boards: str, mig: bool = True, **options: t.Any) -> Session:
        known, products = description.load_boards(), description.load_products()["products"]
        requested = [description.RequestedGpu(description.find(board, known, products)) for board in boards]
        node = Node(tmp_path / ("node%d" % len(initialised)))
        node.create(description.describe(requested, **options))
        monkeypatch.setenv("NVSIM_STATE", str(node.state))
        monkeypatch.setenv("NVSIM_UID", "0")
        nv.nvmlInit()
        initialised.append(node)
        session = Session(node)
        for index, gpu in enumerate(node.show()["gpus"]):
            if mig and gpu["mig_capable"]:
                nv.nvmlDeviceSetMigMode(session.handle(index), 1)
        return session

    yield make
    if initialised:
        nv.nvmlShutdown()


@pytest.fixture
def sleeper() -> t.Iterator[t.Callable[[], "subprocess.Popen[bytes]"]]:
    """Start processes to attach, and kill them after the test."""
    started: t.List["subprocess.Popen[bytes]"] = []

    def start() -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def code_of(call: t.Callable[..., t.Any], *arguments: t.Any) -> int:
    """Return the code of a pynvml call: 0, or the code of its exception."""
    try:
        call(*arguments)
    except nv.NVMLError as error:
        return t.cast(int, error.value)
    return 0


def address(handle: t.Any) -> t.Optional[int]:
    """Return a handle as a number."""
    return ctypes.cast(handle, ctypes.c_void_p).value


def profiles_of(device: t.Any) -> t.Dict[str, t.Any]:
    """Return GPU instance profiles by name, enumerated like a client."""
    found = {}
    for constant in range(nv.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nv.nvmlDeviceGetGpuInstanceProfileInfo(device, constant, version=2)
        except nv.NVMLError_NotSupported:
            continue
        except nv.NVMLError_InvalidArgument:
            break
        info.constant = constant
        found[info.name.replace("MIG ", "")] = info
    return found


def placements_of(device: t.Any, profile_id: int) -> t.List[t.Tuple[int, int]]:
    count = ctypes.c_uint()
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, None, ctypes.byref(count))
    places = (nv.c_nvmlGpuInstancePlacement_t * count.value)()
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, places, ctypes.byref(count))
    return [(place.start, place.size) for place in places]


def create_at(device: t.Any, profile_id: int, start: int, size: int) -> t.Any:
    place = nv.c_nvmlGpuInstancePlacement_t(start, size)
    return nv.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile_id, ctypes.byref(place))


def gpu_instances(device: t.Any) -> t.Dict[int, t.Any]:
    """Return the handles of all GPU instances by id."""
    found = {}
    for profile in profiles_of(device).values():
        count = ctypes.c_uint()
        handles = (nv.c_nvmlGpuInstance_t * 16)()
        nv.nvmlDeviceGetGpuInstances(device, profile.id, handles, ctypes.byref(count))
        for handle in handles[: count.value]:
            found[nv.nvmlGpuInstanceGetInfo(handle).id] = handle
    return found


def compute_profiles(gi: t.Any) -> t.Dict[str, t.Any]:
    found = {}
    for constant in range(nv.NVML_COMPUTE_INSTANCE_PROFILE_COUNT + 2):
        try:
            info = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, constant, 0, version=2)
        except nv.NVMLError_NotSupported:
            continue
        except nv.NVMLError_InvalidArgument:
            break
        info.constant = constant
        found[info.name.replace("MIG ", "")] = info
    return found


def mig_devices(device: t.Any) -> t.List[t.Any]:
    return [nv.nvmlDeviceGetMigDeviceHandleByIndex(device, index) for index in range(count_mig_devices(device))]


def count_mig_devices(device: t.Any) -> int:
    count = 0
    for index in range(nv.nvmlDeviceGetMaxMigDeviceCount(device)):
        if code_of(nv.nvmlDeviceGetMigDeviceHandleByIndex, device, index) == 0:
            count += 1
    return count


def sound(node: Node) -> None:
    """Check the invariants: no unit or id is used twice, and compute instances are inside their GPU instance."""
    for gpu in node.show()["gpus"]:
        units = [u for gi in gpu["gpu_instances"] for u in range(gi["start"], gi["start"] + gi["size"])]
        ids = [gi["id"] for gi in gpu["gpu_instances"]]
        assert len(units) == len(set(units))
        assert len(ids) == len(set(ids))
        slices = {row["name"]: row["slices"] for row in gpu["profiles"]}
        for gi in gpu["gpu_instances"]:
            inside = [u for ci in gi["compute_instances"] for u in range(ci["start"], ci["start"] + ci["size"])]
            assert len(inside) == len(set(inside))
            assert all(unit < slices[gi["profile"]] for unit in inside)
