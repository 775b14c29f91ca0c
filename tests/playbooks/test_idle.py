# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes that would interrupt processes on GPUs. The roles' keys cannot be downloaded, so that they never
install packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet

SITE = PLAYBOOKS / "site.yml"
MODE = [{"devices": "all", "mig_enabled": True, "mig_devices": {}}]
IDLE = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - gpufleet.node.node_idle: {role: nvidia_driver, reasons: [a reboot]}
"""
UNDO = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gpufleet.node.%s, tasks_from: undo}
"""
# Ends a process when the trace shows that its GPU was read.
ENDER = """
import os, signal, sys, time
while not os.path.exists(sys.argv[1]) or '"nvmlShutdown' not in open(sys.argv[1]).read():
    time.sleep(0.1)
os.kill(int(sys.argv[2]), signal.SIGKILL)
"""


def attach(fleet: Fleet, pid: int) -> None:
    fleet.nvsim("attach", "busy", "--gpu", "0", "--pid", str(pid), "--name", "training")


@pytest.mark.parametrize("role", ["nvidia_driver", "nvidia_container_toolkit"])
def test_packages_are_not_changed_while_a_process_uses_a_gpu(fleet: Fleet, role: str) -> None:
    source = {"nvidia_driver_source": "cuda_repository", "nvidia_driver_repository_url": "http://127.0.0.1:1"}
    fleet.node("busy", "--board", "A100-80GB", gpu_node_roles=[role], **source)
    attach(fleet, os.getpid())
    refusal = "busy: processes use its GPUs: PID %d (training). The role does not continue" % os.getpid()
    run = fleet.play(SITE, fails=True)
    assert refusal in run.output and "set %s_busy_wait or %s_interrupt" % (role, role) in run.output
    assert "Cannot download the key" not in run.output
    run = fleet.play(SITE, fails=True, **{role + "_interrupt": True})
    assert refusal not in run.output and "Cannot download the key http://127.0.0.1:1/key" in run.output


@pytest.mark.parametrize("role", ["nvidia_driver", "nvidia_container_toolkit"])
def test_nothing_is_removed_while_a_process_uses_a_gpu(fleet: Fleet, role: str) -> None:
    """After the task that reads the record, because the machine that runs the tests has none."""
    fleet.node("busy", "--board", "A100-80GB")
    attach(fleet, os.getpid())
    playbook = fleet.work / "undo.yml"
    playbook.write_text(UNDO % role)
    recorded = {"__%s_recorded" % role: {"record": {"installed": ["nosuch"]}}}
    start = ("--start-at-task", "*undo_preflight | Require idle GPUs")
    for arguments in (start, (*start, "--check")):
        run = fleet.play(playbook, *arguments, fails=True, **recorded)
        assert "PID %d (training). The role does not continue" % os.getpid() in run.output
        assert "would be removed)" in run.output


def test_the_node_is_not_rebooted_while_a_process_uses_a_gpu(fleet: Fleet) -> None:
    """Ansible itself refuses to reboot the local machine."""
    layout = [dict(MODE[0], devices=1)]
    create = ("--board", "A100-80GB", "--gpus", "2", "--activation", "reset")
    fleet.node("busy", *create, nvidia_mig_layout=layout, nvidia_mig_reboot=True)
    attach(fleet, os.getpid())
    run = fleet.play(PLAYBOOKS / "mig.yml", fails=True)
    assert "PID %d (training). The role does not continue" % os.getpid() in run.output
    assert "(it needs a reboot to change its MIG mode)" in run.output
    not_allowed = ("--check", "-e", json.dumps({"nvidia_mig_reboot": False}))
    preview = fleet.play(PLAYBOOKS / "mig.yml", *not_allowed, fails=True)
    assert "The MIG mode of some GPUs changes only with a reset or reboot: GPU 1 " in preview.output
    preview = fleet.play(PLAYBOOKS / "mig.yml", "--check", fails=True)
    assert "(it needs a reboot to change its MIG mode)" in preview.output


def test_a_preview_of_a_change_of_mig_mode_tells_which_gpus_would_change(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "A100-80GB", "--gpus", "2", nvidia_mig_layout=MODE)
    attach(fleet, os.getpid())
    preview = (PLAYBOOKS / "mig.yml", "--check")
    reason = "MIG mode cannot be switched on while PID %d (training) uses the GPU. Stop it" % os.getpid()
    refused = fleet.play(*preview, fails=True)
    skipped = fleet.play(*preview, fails=True, nvidia_mig_busy="skip")
    awaited = fleet.play(*preview, nvidia_mig_busy_wait=600)
    (fleet.work / "tasks.yml").write_text("[]")
    tasks = str(fleet.work / "tasks.yml")
    drained = fleet.play(*preview, gpu_node_drain_tasks=tasks, gpu_node_return_tasks=tasks)
    runs = (refused, skipped, awaited, drained)
    assert [len(run.stats()["gpufleet_changed_gpus"]["busy"]) for run in runs] == [0, 1, 2, 2]
    assert "Would fail now: GPU 0 (" in drained.output
    assert reason in refused.output and reason in skipped.output
    assert "The other GPUs would match the layout." in " ".join(skipped.output.split())


def test_waits_until_the_gpus_are_idle(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "A100-80GB")
    playbook = fleet.work / "idle.yml"
    playbook.write_text(IDLE)
    with subprocess.Popen(["sleep", "600"]) as brief:
        attach(fleet, brief.pid)
        fleet.nvsim("trace", "busy", "--on")
        trace = fleet.work / "busy" / "state.trace"
        with subprocess.Popen([sys.executable, "-c", ENDER, trace, str(brief.pid)]):
            run = fleet.play(playbook, nvidia_driver_busy_wait=600)
    assert "busy: waiting, " in run.output
    assert "s left: processes use its GPUs: PID %d (training)" % brief.pid in run.output
