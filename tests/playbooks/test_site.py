# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/site.yml, verify.yml and undo.yml, as far as they do not change the local machine."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, TOP, Fleet, ansible_playbook
from ansible_collections.gpufleet.node.tests.playbooks.site_support import (
    INSTANCES,
    LAYOUT,
    SITE,
    VERIFY,
)


def test_syntax_by_name_and_from_the_checkout(fleet: Fleet) -> None:
    fleet.host("nowhere")
    lists = {
        fleet.play(playbook, "--list-tasks").output.partition("play #1")[2]
        for playbook in (SITE, TOP / "site.yml", "gpufleet.node.site")
    }
    assert len(lists) == 1


def test_without_a_layout_mig_is_not_configured(fleet: Fleet) -> None:
    fleet.node("plain", "--board", "A100-80GB", gpu_node_hosts_path=str(fleet.work / "hosts"))
    for playbook in (SITE, VERIFY):
        run = fleet.play(playbook, "--tags", "name,mig,verify", "--skip-tags", "driver,toolkit", gpu_node_roles=["all"])
        assert (run.count("plain", "changed"), run.count("plain", "failed")) == (0, 0)
    assert fleet.instances("plain") == [[]]


MINE = """
- import_playbook: "%s"
  tags: [gpus]
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: something else}
      tags: [other]
"""


def test_playbooks_work_under_a_tag_of_the_user(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB", nvidia_mig_layout=LAYOUT, gpu_node_roles=["nvidia_mig"])
    for name in ("site", "verify"):
        (fleet.work / (name + ".yml")).write_text(MINE % (PLAYBOOKS / (name + ".yml")))
    fleet.play(fleet.work / "site.yml", "--tags", "other")
    assert fleet.instances("here") == [[]]
    fleet.play(fleet.work / "verify.yml", "--tags", "other")
    assert "GPUs do not match" in fleet.play(fleet.work / "verify.yml", "--tags", "gpus", fails=True).output
    fleet.play(fleet.work / "site.yml", "--tags", "gpus")
    assert fleet.instances("here") == [INSTANCES]
    fleet.play(fleet.work / "verify.yml", "--tags", "gpus")


def test_site_can_start_at_a_task(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB")
    fleet.node("there", "--board", "A100-80GB")
    start = ("--start-at-task", "gpufleet.node.nvidia_mig : preflight | Read the GPUs")
    fleet.play(SITE, *start, "--tags", "mig", "--limit", "here", nvidia_mig_layout=LAYOUT)
    assert (fleet.instances("here"), fleet.instances("there")) == ([INSTANCES], [[]])


def test_a_node_is_not_drained_without_the_preflight(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB", gpu_cluster_drain=True)
    (fleet.work / "main.yml").write_text("[{hosts: gpu_nodes, gather_facts: false, roles: [gpufleet.node.gpu_node]}]")
    run = fleet.play(fleet.work / "main.yml", "--tags", "mig", fails=True)
    assert "here: the preflight has not selected the roles whose changes drain the node" in run.output
    assert "is undefined" not in run.output


ALONE = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gpufleet.node.nvidia_mig, tasks_from: preflight}
      tags: [check]
    - ansible.builtin.assert: {that: "nvidia_mig_problems == []"}
      tags: [check]
    - ansible.builtin.import_role: {name: gpufleet.node.nvidia_mig}
      tags: [gpus]
    - ansible.builtin.import_role: {name: gpufleet.node.nvidia_mig, tasks_from: verify}
      tags: [always]
    - ansible.builtin.debug: {msg: "found {{ nvidia_mig_problems | length }}."}
      tags: [always]
"""


def test_the_role_nvidia_mig_works_alone(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB")
    playbook = fleet.work / "alone.yml"
    playbook.write_text(ALONE)
    assert "found 1." in fleet.play(playbook, "--tags", "check", nvidia_mig_layout=LAYOUT).output
    assert fleet.instances("here") == [[]]
    start = ("--start-at-task", "steps | Start the clients that an interrupted run stopped")
    run = fleet.play(playbook, *start, nvidia_mig_layout=LAYOUT)
    assert "found 0." in run.output
    assert fleet.instances("here") == [INSTANCES]


# --- Tags -------------------------------------------------------------------------------------------------------------


def test_mig_and_verify_twice(fleet: Fleet) -> None:
    fleet.node("first", "--board", "A100-80GB", "--gpus", "2", gpu_node_boards=["A100-80GB"] * 2)
    fleet.node("second", "--board", "A100-80GB", gpu_node_boards=["A100-80GB"])

    checked = fleet.play(SITE, "--tags", "mig", "--check", "--diff", nvidia_mig_layout=LAYOUT)
    assert "|1g.10gb|1g.10gb|1g.10gb|.......|3g.40gb " in checked.output
    assert fleet.instances("first") == [[], []]
    changing = checked.stats()["gpufleet_changed_gpus"]
    assert [len(changing[host]) for host in ("first", "second")] == [2, 1]
    assert checked.stats()["gpufleet_problems"] == {"first": [], "second": []}

    once = fleet.play(SITE, "--tags", "mig,verify", nvidia_mig_layout=LAYOUT)
    assert [once.count(host, "changed") for host in ("first", "second")] == [1, 1]
    assert fleet.instances("first") == [INSTANCES, INSTANCES]
    assert fleet.instances("second") == [INSTANCES]
    assert once.stats()["gpufleet_changed_gpus"] == changing

    again = fleet.play(SITE, "--tags", "mig,verify", nvidia_mig_layout=LAYOUT)
    assert [again.count(host, "changed") for host in ("first", "second")] == [0, 0]
    assert fleet.instances("first") == [INSTANCES, INSTANCES]
    assert again.stats()["gpufleet_changed_gpus"] == {"first": [], "second": []}


def test_check_mode_shows_the_layout_on_the_boards_of_a_node_without_a_driver(fleet: Fleet) -> None:
    fleet.host("bare", gpu_node_boards=["A100-80GB"])
    run = fleet.play(SITE, "--tags", "mig", "--check", "--diff", nvidia_mig_layout=LAYOUT)
    assert "From gpu_node_boards, not read from the node:" in run.output
    assert "GPU 0 A100-80GB  |1g.10gb|1g.10gb|1g.10gb|.......|3g.40gb " in run.output


def test_names(fleet: Fleet) -> None:
    hosts = fleet.work / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    fleet.host(
        "here",
        gpu_node_hosts_path=str(hosts),
        gpu_node_hosts_entries=[{"address": "192.0.2.7", "names": ["gpu7.example.com", "gpu7"]}],
        nvidia_mig_layout=LAYOUT,
    )
    assert fleet.play(SITE, "--tags", "name", "--check").count("here", "changed") == 1
    assert fleet.play(SITE, "--tags", "name").count("here", "changed") == 1
    hosts.chmod(0o640)
    assert fleet.play(SITE, "--tags", "name").count("here", "changed") == 0
    assert hosts.stat().st_mode & 0o777 == 0o640
    assert hosts.read_text().splitlines()[0] == "127.0.0.1 localhost"
    assert "192.0.2.7 gpu7.example.com gpu7\n" in hosts.read_text()
    fleet.hosts["here"]["gpu_node_hosts_entries"] = []
    assert fleet.play(SITE, "--tags", "name").count("here", "changed") == 1
    assert hosts.read_text() == "127.0.0.1 localhost\n"
    fleet.hosts["here"]["gpu_node_hosts_entries"] = [{"address": "192.0.2.8", "names": ["gpu8"]}]
    fleet.play(SITE, "--tags", "name")
    fleet.play(PLAYBOOKS / "undo.yml", "--tags", "name", gpu_node_undo_confirmed=True)
    assert hosts.read_text() == "127.0.0.1 localhost\n"


# --- undo.yml, inventory ----------------------------------------------------------------------------------------------


def test_undo_requires_a_confirmation(fleet: Fleet) -> None:
    fleet.host("first")
    fleet.host("second")
    run = fleet.play(PLAYBOOKS / "undo.yml", fails=True)
    assert "installed on first, second" in run.output
    assert "-e gpu_node_undo_confirmed=true" in run.output
    assert "Remove" not in run.output


@pytest.mark.parametrize(
    "some",
    [
        ("--limit", "first"),
        ("-e", "gpu_node_target=first"),
        ("-e", "gpu_node_target=first,localhost"),
        ("-e", "gpu_node_target=first,second,localhost", "--limit", "first,localhost"),
    ],
)
def test_undo_of_some_hosts_leaves_the_chart_of_the_others(fleet: Fleet, some: tuple[str, str]) -> None:
    for name in ("first", "second"):
        fleet.host(name, gpu_node_roles=["gpu_operator"], gpu_operator_version="v26.7.0")
    given = {"gpu_node_undo_confirmed": True, "gpu_cluster_kubeconfig": "missing"}
    undo = (PLAYBOOKS / "undo.yml", "--tags", "operator")
    run = fleet.play(*undo, *some, **given)
    assert "Find what the role has installed" not in run.output
    assert "gpu_operator: the chart stays in the cluster, because other hosts use it (second)." in " ".join(
        run.output.split()
    )
    run = fleet.play(*undo, *some, "-e", json.dumps({"gpu_cluster_other_hosts": []}), fails=True, **given)
    assert "Find what the role has installed" in run.output


def test_undo_disables_mig_before_other_changes_and_where_a_driver_answers(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In check mode: undo would remove the boot unit of the local machine."""
    systemctl = fleet.work / "bin" / "systemctl"  # of a system that has no such unit
    systemctl.parent.mkdir()
    systemctl.write_text('#!/bin/sh\ntest "$1" = show && echo LoadState=not-found\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(systemctl.parent), prepend=":")
    fleet.host("bare", gpu_node_boards=["A100-80GB"])
    fleet.node("busy", "--board", "A100-80GB")
    undo = (PLAYBOOKS / "undo.yml", "--tags", "mig", "--check", "--diff")
    given = {"gpu_node_undo_confirmed": True, "nvidia_mig_undo_mode": True}
    fleet.play(SITE, "--tags", "mig", "--limit", "busy", nvidia_mig_layout=LAYOUT, nvidia_mig_reset=True)
    refused = fleet.play(*undo, "--limit", "busy", fails=True, **given)
    assert "MIG mode cannot be disabled: GPU 0 (" in refused.output and "nvidia_mig_reset" in refused.output
    run = fleet.play(*undo, nvidia_mig_reset=True, **given)
    assert "bare: MIG mode cannot be changed, because no driver answers." in " ".join(run.output.split())
    assert "From gpu_node_boards" not in run.output
    assert re.search(r"\+GPU 0 GPU-\S+ .* MIG off", run.output)

    instance = str(json.loads(fleet.nvsim("show", "busy", "--json"))["gpus"][0]["gpu_instances"][0]["id"])
    fleet.nvsim("attach", "busy", "--gpu", "0", "--gi", instance, "--pid", str(os.getpid()), "--name", "training")
    run = fleet.play(*undo, "--limit", "busy", fails=True, nvidia_mig_reset=True, **given)
    assert "(training)" in run.output
    assert all("Disable the boot unit" not in each.output for each in (refused, run))


def test_the_example_inventory_passes_the_checks(tmp_path: Path) -> None:
    run = ansible_playbook(
        tmp_path,
        *("-i", TOP / "inventory", "-e", "ansible_connection=local", "-e", "ansible_become=false"),
        *("-e", "ansible_python_interpreter=" + sys.executable),
        *("--tags", "always", "-v", SITE),
    )
    assert run.status == 0, run.output
    for host in ("gpu-a100-01", "gpu-a100-02", "dgx-01", "hgx-01", "hgx-02"):
        assert run.count(host, "ok") >= 4
