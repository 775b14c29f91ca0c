# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The batches of site.yml, and when it stops."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import (
    INSTANCES,
    LAYOUT,
    SITE,
)


def test_stops_after_a_failed_canary(fleet: Fleet) -> None:
    fleet.node("canary", "--board", "A100-80GB", "--activation", "reset")
    fleet.node("other", "--board", "A100-80GB")
    run = fleet.play(SITE, "--tags", "mig", fails=True, nvidia_mig_layout=LAYOUT)
    assert "Set nvidia_mig_reset to true" in run.output
    assert run.count("canary", "failed") == 1
    assert fleet.instances("other") == [[]]


def test_a_deferred_gpu_does_not_stop_later_batches(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "H100-80GB")
    fleet.node("other", "--board", "H100-80GB")
    fleet.nvsim("attach", "busy", "--gpu", "0", "--pid", str(os.getpid()), "--name", "training")
    reason = "while PID %d (training) uses the GPU" % os.getpid()
    for playbook, last in ((SITE, "Verify the cluster"), (PLAYBOOKS / "mig.yml", "Report deferred GPUs")):
        run = fleet.play(playbook, fails=True, nvidia_mig_layout=LAYOUT, nvidia_mig_busy="skip")
        assert (fleet.instances("busy"), fleet.instances("other")) == ([[]], [INSTANCES])
        assert (run.count("busy", "failed"), run.count("other", "failed")) == (1, 0)
        assert reason in run.output[run.output.rindex("PLAY [%s]" % last) :]


def test_batches_can_be_set(fleet: Fleet) -> None:
    fleet.node("first", "--board", "A100-80GB")
    fleet.node("second", "--board", "A100-80GB")
    run = fleet.play(
        SITE,
        "--tags",
        "mig",
        "-e",
        "gpu_node_batches=2",
        "-e",
        "gpu_node_target=first:second",
        nvidia_mig_layout=LAYOUT,
    )
    assert run.output.count("PLAY [Provision the nodes") == 1
    assert fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT).output.count("PLAY [Provision the nodes") == 2


@pytest.mark.parametrize("name", ["site", "mig", "verify", "undo"])
def test_no_host_is_an_error(fleet: Fleet, name: str) -> None:
    fleet.host("here")
    run = fleet.play(PLAYBOOKS / (name + ".yml"), "-e", "gpu_node_target=gpu_ndoes", fails=True)
    assert "No host of the inventory matches gpu_ndoes, so nothing was done" in " ".join(run.output.split())


LOST = """
- hosts: gpu_nodes
  gather_facts: false
  serial: 2
  pre_tasks:
    - ansible.builtin.import_role: {name: gpufleet.node.gpu_node, tasks_from: batch}
  tasks:
    - ansible.builtin.set_fact: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
      when: inventory_hostname == 'a'
    - ansible.builtin.ping:
"""


def test_an_unreachable_node_stops_later_batches(fleet: Fleet) -> None:
    """Without the role, Ansible continues unless all nodes of a batch fail."""
    for name in "abc":
        fleet.host(name)
    playbook = fleet.work / "lost.yml"
    playbook.write_text(LOST)
    run = fleet.play(playbook, fails=True)
    assert run.count("a", "unreachable") == 1
    # ok: the validation of the entry point
    assert (run.count("c", "ok"), run.count("c", "failed"), run.count("c", "changed")) == (1, 1, 0)
    assert "Done: none. Failed: none. Now: a, b. Left: c" in run.output
    assert "Not changed: c, because of a. See the errors above" in run.output
    run = fleet.play(playbook, fails=True, gpu_node_max_fail_percentage=34)
    assert (run.count("a", "unreachable"), run.count("c", "failed")) == (1, 0)
    assert "Done: b. Failed: a. Now: c. Left: none" in run.output
