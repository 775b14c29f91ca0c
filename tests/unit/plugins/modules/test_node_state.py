# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What node_state reads. The playbooks' tests have the rest."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Process
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import processes
from ansible_collections.gpufleet.node.plugins.module_utils._module.report import node_state

UID = "6f1d9a52-7c1e-4b0a-9a3e-0d6a3c1f2b4e"
SYSTEMD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-0a.scope\n"
CGROUPFS = "0::/kubepods/besteffort/pod%s/0a1b\n"


@pytest.mark.parametrize(
    ("groups", "pod"),
    [
        (SYSTEMD % UID.replace("-", "_"), UID),
        (CGROUPFS % UID, UID),
        ("12:pids:/system.slice/x\n11:cpu:" + CGROUPFS % UID, UID),
        ("0::/system.slice/slurmstepd.scope/job_1\n", None),
        ("0::/user.slice/pod%s\n" % UID, None),
        (None, None),  # it has ended
    ],
)
def test_the_pod_of_a_process_is_that_of_its_control_group(tmp_path, monkeypatch, groups, pod):
    monkeypatch.setattr(processes, "PROCESSES", str(tmp_path))
    if groups is not None:
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "cgroup").write_text(groups)
    assert processes.pod_of(7) == pod


def test_gpus_have_their_processes_or_null(monkeypatch):
    class Gpu:
        processes = (Process(7, "train", 2, 0),)

    def gather(_node, _open, more):
        return {"gpus": [{"index": 0, **more(Gpu)}, {"index": 1}]}

    monkeypatch.setattr(node_state.facts, "gather", gather)
    readable, lost = node_state.gpus_and_driver(None, None)["gpus"]
    assert readable["processes"] == [{"pid": 7, "name": "train", "gi_id": 2, "ci_id": 0, "pod_uid": None}]
    assert lost["processes"] is None


@pytest.mark.parametrize(
    ("result", "version", "problem"),
    [
        ((0, "NVIDIA Container Toolkit CLI version 1.20.1\ncommit: 0a1b\n", ""), "1.20.1", None),
        ((127, "", "nvidia-ctk is not installed"), None, "nvidia-ctk is not installed"),
        ((1, "", "Illegal instruction\n"), None, "nvidia-ctk --version: Illegal instruction"),
    ],
)
def test_the_version_of_the_toolkit_or_why_it_is_unknown(result, version, problem):
    assert node_state.toolkit(lambda _argv: result) == {"version": version, "problem": problem}
