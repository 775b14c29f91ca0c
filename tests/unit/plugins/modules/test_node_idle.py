# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes count as work. The playbooks' tests have the rest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Process
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import idle, processes

UNIT = "0::/system.slice/nvidia-dcgm.service\n"
JOB = "0::/system.slice/slurmstepd.scope/job_1\n"


def no_driver():
    raise BackendError(codes.LIBRARY_NOT_FOUND, "nvmlInit", "it is not installed")


def backend(*gpus):
    """A driver with these processes on its GPUs."""
    read = [SimpleNamespace(processes=[Process(pid, "work") for pid in pids]) for pids in gpus]
    return SimpleNamespace(count=lambda: len(read), read=read.__getitem__, prefetch=lambda: None, close=lambda: None)


@pytest.fixture(name="processes")
def fixture_processes(tmp_path, monkeypatch):
    """Add a process with a control group and open files."""
    monkeypatch.setattr(processes, "PROCESSES", str(tmp_path))

    def add(pid, group, *opened):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "cgroup").write_text(group)
        for number, path in enumerate(opened):
            (tmp_path / str(pid) / "fd" / str(number)).symlink_to(path)

    return add


def work(open_backend):
    def systemctl(*_arguments):
        return 0, "nvidia-dcgm.service loaded active running DCGM\n", ""

    return [each.pid for each in idle.gpu_processes(systemctl, ["nvidia-dcgm.service"], open_backend)]


def test_processes_on_all_gpus_except_those_of_the_units(processes):
    processes(11, JOB)
    processes(12, UNIT)
    processes(13, JOB)
    assert work(lambda: backend([11, 12], [13])) == [11, 13]
    assert work(lambda: backend([], [])) == []


def test_without_a_working_driver_those_that_use_cuda(processes):
    assert work(no_driver) == []
    processes(11, JOB, "/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm")
    processes(12, UNIT, "/dev/nvidia-uvm")
    processes(13, JOB, "/dev/nvidiactl", "/dev/nvidia0")  # monitoring
    assert work(no_driver) == [11]
