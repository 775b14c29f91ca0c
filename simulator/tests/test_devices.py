# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Device nodes: what a process in a container sees of a node's GPUs."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pynvml as nv
import pytest
from conftest import code_of, mig_devices

Simulate = t.Callable[..., t.Any]
NAMES = ["nvidia0", "nvidia1", "nvidia-caps/nvidia-cap1"]


def capability(gpu: int, gi: int, ci: t.Optional[int] = None) -> str:
    return "nvidia-caps/nvidia-cap%d" % (3 + (gpu * 15 + gi) * 9 + (0 if ci is None else 1 + ci))


@pytest.fixture(name="view")
def fixture_view(tmp_path: Path) -> t.Callable[..., None]:
    def view(session: t.Any, *names: str) -> None:
        """Continue as a process that has these device nodes."""
        folder = tmp_path / "dev"
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        nv.nvmlShutdown()
        session.node.state.with_name("state.devices").write_text("%s\n" % folder)
        nv.nvmlInit()

    return view


def uuids(device: t.Any) -> t.List[str]:
    return [nv.nvmlDeviceGetUUID(mig) for mig in mig_devices(device)]


def test_only_gpus_with_a_device_node_are_visible(simulate: Simulate, view: t.Callable[..., None]) -> None:
    session = simulate("A100-80GB", "A100-80GB", "A100-80GB", mig=False)
    known = [nv.nvmlDeviceGetUUID(session.handle(index)) for index in range(3)]
    serial = nv.nvmlDeviceGetSerial(session.handle(0))
    view(session, "nvidia1", "nvidia2")
    assert nv.nvmlDeviceGetCount() == 2
    assert [nv.nvmlDeviceGetUUID(session.handle(index)) for index in range(2)] == known[1:]
    assert [nv.nvmlDeviceGetIndex(session.handle(index)) for index in range(2)] == [0, 1]
    assert code_of(session.handle, 2) == nv.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(nv.nvmlDeviceGetHandleByUUID, known[0]) == nv.NVML_ERROR_NOT_FOUND
    assert code_of(nv.nvmlDeviceGetHandleBySerial, serial) == nv.NVML_ERROR_NOT_FOUND


def test_only_mig_devices_with_both_nodes_are_visible(simulate: Simulate, view: t.Callable[..., None]) -> None:
    session = simulate("A100-80GB", "A100-80GB")
    for index in range(2):
        for _each in range(2):
            instance = nv.nvmlDeviceCreateGpuInstance(session.handle(index), 19)
            nv.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    first, second = (uuids(session.handle(index)) for index in range(2))
    gi = nv.nvmlDeviceGetGpuInstanceId(mig_devices(session.handle(1))[1])
    view(session, *NAMES, capability(1, gi), capability(1, gi, 0))
    assert uuids(session.handle(0)) == []
    assert uuids(session.handle(1)) == second[1:]
    assert nv.nvmlDeviceGetIndex(mig_devices(session.handle(1))[0]) == 0
    assert code_of(nv.nvmlDeviceGetHandleByUUID, first[0]) == nv.NVML_ERROR_NOT_FOUND
    view(session, *NAMES, capability(1, gi))
    assert uuids(session.handle(1)) == []


def test_instances_are_changed_through_their_own_device_node(simulate: Simulate, view: t.Callable[..., None]) -> None:
    session = simulate("A100-80GB")
    view(session, "nvidia0")
    assert code_of(nv.nvmlDeviceCreateGpuInstance, session.handle(), 19) == nv.NVML_ERROR_NO_PERMISSION
    view(session, "nvidia0", "nvidia-caps/nvidia-cap1")
    nv.nvmlDeviceCreateGpuInstance(session.handle(), 19)
