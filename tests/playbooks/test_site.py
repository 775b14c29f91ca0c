# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/site.yml, verify.yml and undo.yml, as far as they do not change the local machine."""

from __future__ import annotations

import os
import re
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, TOP, Fleet, ansible_playbook

SITE = PLAYBOOKS / "site.yml"
VERIFY = PLAYBOOKS / "verify.yml"
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
OFF = [{"devices": "all", "mig_enabled": False}]
INSTANCES = ["1g.10gb at 0", "1g.10gb at 1", "1g.10gb at 2", "3g.40gb at 4"]
NOT_ROOT = int(os.geteuid() != 0)  # one more problem of the container toolkit
# Or the client's library is missing, which is no requirement of these tests.
UNREADABLE = "the (cluster cannot be read: .*Check gpu_cluster_host|controller's Python lacks)"
GONE = {
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.1",
    "ansible_port": 1,
    "ansible_ssh_common_args": "-F none",
}
TOO_MUCH = [{"devices": "all", "mig_enabled": True, "mig_devices": {"4g.40gb": 1, "1g.10gb": 4}}]


def test_syntax_by_name_and_from_the_checkout(fleet: Fleet) -> None:
    fleet.host("nowhere")
    lists = {
        fleet.play(playbook, "--list-tasks").output.partition("play #1")[2]
        for playbook in (SITE, TOP / "site.yml", "gpufleet.node.site")
    }
    assert len(lists) == 1


# --- Preflight --------------------------------------------------------------------------------------------------------


def test_preflight_reports_the_problems_of_all_hosts_and_changes_nothing(fleet: Fleet) -> None:
    fleet.node("good", "--board", "A100-80GB")
    fleet.node("full", "--board", "A100-80GB", nvidia_mig_layout=TOO_MUCH)
    fleet.host("misspelt", nvidia_mig_layuot=[], nvidia_mig_reset="perhaps")
    fleet.host("template", nvidia_mig_layout="{{ layouts.nightly }}")
    fleet.host("gone", **GONE)
    run = fleet.play(
        SITE,
        "--tags",
        "mig",
        fails=True,
        nvidia_mig_layout=LAYOUT,
        gpu_node_boards=["A100-80GB"],
        nvidia_mig_reset=True,
    )
    message = run.output[run.output.index("Nothing was changed. Problems: 5") :]
    assert '- full: entry 1 (devices: "all"), GPU 0' in message
    assert "8 compute slices are needed and the GPU has 7; nearest that fits: 4g.40gb: 1, 1g.10gb: 3" in message
    assert (
        "- misspelt: nvidia_mig_layuot is not a variable of this collection (did you mean nvidia_mig_layout?)"
        in message
    )
    assert "- misspelt: nvidia_mig_reset is 'perhaps': give true or false" in message
    assert "- template: nvidia_mig_layout cannot be read: 'layouts' is undefined" in message
    remedy = "To continue without it, set gpu_node_skip to unreachable, or add --limit '!gone'"
    assert "- gone: it cannot be reached: " in message and remedy in message
    assert "- good: " not in message
    # The hosts with problems fail, and no other.
    assert [run.count(host, "failed") for host in ("good", "full", "misspelt", "template", "gone")] == [0, 1, 1, 1, 1]
    assert "Provision the nodes" not in run.output
    assert fleet.instances("good") == [[]]


@pytest.mark.parametrize("name", ["site", "mig"])
def test_unreachable_nodes_can_be_skipped(fleet: Fleet, name: str) -> None:
    fleet.host("gone", **GONE)  # it would be the canary
    for host in ("canary", "good"):
        fleet.node(host, "--board", "A100-80GB")
    # As a survey of AWX does, chooses the layout by its name.
    skip = {"nvidia_mig_layouts": {"ours": LAYOUT}, "nvidia_mig_layout": "ours", "gpu_node_skip": "unreachable"}
    run = fleet.play(PLAYBOOKS / (name + ".yml"), "--tags", "all,mig", fails=True, **skip)
    assert run.status == 4
    assert [run.count(host, "unreachable") for host in ("gone", "canary", "good")] == [1, 0, 0]
    assert "gone cannot be reached and is left out" in run.output
    assert "Done: canary. Failed: none. Now: good. Left: none" in run.output
    assert [fleet.instances("canary"), fleet.instances("good")] == [[INSTANCES], [INSTANCES]]
    fleet.hosts["good"]["nvidia_mig_layout"] = TOO_MUCH
    run = fleet.play(PLAYBOOKS / (name + ".yml"), fails=True, **skip)
    assert "Nothing was changed. Problems: 1" in run.output


@pytest.mark.parametrize("name", ["site", "mig"])
def test_nodes_with_problems_can_be_skipped(fleet: Fleet, name: str) -> None:
    skip = {"gpu_node_skip": "problems"}
    fleet.node("full", "--board", "A100-80GB", nvidia_mig_layout=TOO_MUCH, **skip)  # it would be the canary
    for host in ("canary", "good"):
        fleet.node(host, "--board", "A100-80GB")
    arguments = [PLAYBOOKS / (name + ".yml"), "--tags", "all,mig"]
    run = fleet.play(*arguments, fails=True, nvidia_mig_layout=LAYOUT)
    assert (run.status, [run.count(host, "failed") for host in ("full", "canary", "good")]) == (2, [1, 0, 0])
    assert "The nodes with problems are left out. Problems: 1" in run.output
    assert "Done: canary. Failed: none. Now: good. Left: none" in run.output
    assert [fleet.instances(host) for host in ("full", "canary", "good")] == [[[]], [INSTANCES], [INSTANCES]]
    fleet.hosts["good"]["nvidia_mig_layout"] = TOO_MUCH  # and may not be skipped
    run = fleet.play(*arguments, fails=True, nvidia_mig_layout=LAYOUT)
    assert "Nothing was changed. Problems: 1" in run.output


# One for each source of problems; the unit tests have all.
WRONG: t.Sequence[t.Tuple[t.Dict[str, t.Any], str]] = (
    ({"gpu_node_boards": ["A100-80G"]}, "gpu_node_boards, entry 1: unknown board 'A100-80G'"),
    ({"gpu_node_boards": ["A100-40GB"]}, "has no profile 3g.40gb"),
    ({"gpu_node_boards": None}, "gpu_node_boards"),
    ({"nvidia_mig_layout": "[{devices: all}]"}, "nvidia_mig_layout is the string "),
    ({"nvidia_mig_layouts": {"a": LAYOUT}, "nvidia_mig_layout": "b"}, "or a name in nvidia_mig_layouts (a)"),
    ({"nvidia_mig_backend": "dcgm"}, "value of nvidia_mig_backend must be one of: auto, nvml, nvidia_smi"),
    ({"gpu_node_hosts_entries": [{"address": "192.0.2.1"}]}, "missing required arguments: names"),
    ({"gpu_node_roles": ["nvidia_mig", "nvidia_mgi"]}, "gpu_node_roles"),
    ({"nvidia_mig_lock_path": "lock"}, "nvidia_mig_lock_path is 'lock': give an absolute path"),
    ({"nvidia_mig_access_group": "{{ 1 / 0 }}"}, "nvidia_mig_access_group cannot be read: division by zero"),
)


def test_preflight_reports_each_problem_with_its_host(fleet: Fleet) -> None:
    for number, (variables, _words) in enumerate(WRONG):
        fleet.host("host%d" % number, **{"nvidia_mig_layout": LAYOUT, "gpu_node_boards": ["A100-80GB"], **variables})
    run = fleet.play(SITE, "--tags", "mig", fails=True)
    told = run.output[run.output.index("Nothing was changed. Problems: ") :].splitlines()
    for number, (_variables, words) in enumerate(WRONG):
        # Ansible prints a message twice, the second time as JSON.
        lines = {line.strip().rstrip('"}') for line in told if line.lstrip().startswith("- host%d: " % number)}
        assert len(lines) == 1 and words in lines.pop(), (words, lines)  # one message for each cause
    assert "Provision the nodes" not in run.output


def test_nodes_and_gpus_with_the_same_problem_share_one_line(fleet: Fleet) -> None:
    for name in ("one", "two"):
        fleet.node(name, "--board", "A100-80GB", "--gpus", "2", nvidia_mig_layout=TOO_MUCH)
    run = fleet.play(SITE, "--tags", "mig", fails=True)
    assert "Nothing was changed. Problems: 1" in run.output
    assert '- one, two: entry 1 (devices: "all"), GPUs 0, 1 (NVIDIA A100-SXM4-80GB): ' in run.output


def test_mig_compares_the_boards_with_the_gpus(fleet: Fleet) -> None:
    """A layout is not refused because of boards that the node does not have."""
    second = [dict(LAYOUT[0], devices=[1])]
    fleet.node("few", "--board", "A100-80GB", "--gpus", "2", gpu_node_boards=["A100-80GB"], nvidia_mig_layout=second)
    fleet.node("other", "--board", "A100-80GB", gpu_node_boards=["NVIDIA H100 80GB HBM3"], nvidia_mig_layout=LAYOUT)
    output = " ".join(fleet.play(PLAYBOOKS / "mig.yml", "--check", "--diff").output.split())
    assert "the driver shows 2 GPUs, and 1 boards are named in gpu_node_boards: correct the inventory" in output
    assert "is A100-80GB, and NVIDIA H100 80GB HBM3 is named in gpu_node_boards" in output


def test_a_host_may_have_any_name(fleet: Fleet) -> None:
    fleet.host(r"gpu-1.(x|y)\1+", nvidia_mig_reset="perhaps", nvidia_mig_layout=LAYOUT)
    run = fleet.play(SITE, "--tags", "mig", fails=True)
    assert r"- gpu-1.(x|y)\1+: nvidia_mig_reset is 'perhaps': give true or false" in run.output


def test_preflight_reports_a_missing_runtime(fleet: Fleet) -> None:
    fleet.host("here", gpu_node_roles=["nvidia_container_toolkit"], nvidia_container_toolkit_runtimes=["crio"])
    for arguments in ([], ["--check"]):
        run = fleet.play(SITE, "--tags", "toolkit", *arguments, fails=True)
        assert "Nothing was changed. Problems: %d" % (1 + NOT_ROOT) in run.output
        assert "- here: crio is not installed, but nvidia_container_toolkit_runtimes is [crio]" in run.output
        assert "Provision the nodes" not in run.output


# One package is held, although it is not installed.
DPKG_QUERY = "#!/bin/sh\necho 'hn \tcontainerd\t'\n"


@pytest.mark.skipif(not os.path.exists("/usr/bin/apt-get"), reason="other systems have no package of containerd")
def test_preflight_reports_a_hold_on_the_runtime_that_would_be_installed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = fleet.work / "bin" / "dpkg-query"
    query.parent.mkdir()
    query.write_text(DPKG_QUERY)
    query.chmod(0o755)
    monkeypatch.setenv("PATH", str(query.parent))  # no container runtime
    fleet.host("here", gpu_node_roles=["nvidia_container_toolkit"], nvidia_container_toolkit_runtimes=["auto"])
    run = fleet.play(SITE, "--tags", "toolkit", fails=True)
    assert "Nothing was changed. Problems: %d" % (1 + NOT_ROOT) in run.output
    assert "- here: somebody else holds containerd, which is not installed, which blocks containerd" in run.output


def test_variables_are_required_only_for_selected_roles(fleet: Fleet) -> None:
    fleet.host("here", gpu_node_hosts_path=str(fleet.work / "hosts"))
    fleet.play(SITE, "--tags", "name")
    run = fleet.play(SITE, "--tags", "always", fails=True)
    assert "missing required arguments: nvidia_mig_layout" in run.output


def test_mig_checks_all_nodes_first(fleet: Fleet) -> None:
    fleet.node("first", "--board", "A100-80GB")
    fleet.node("second", "--board", "A100-80GB", nvidia_mig_layout=TOO_MUCH)
    run = fleet.play(PLAYBOOKS / "mig.yml", fails=True, nvidia_mig_layout=LAYOUT)
    assert "Nothing was changed. Problems: 1" in run.output
    assert "- second: " in run.output
    assert fleet.instances("first") == [[]]


@pytest.mark.parametrize("playbook", [SITE, PLAYBOOKS / "mig.yml"], ids=lambda path: path.name)
def test_the_cluster_is_checked_before_any_node_is_changed(fleet: Fleet, playbook: Path) -> None:
    fleet.node("a", "--board", "A100-80GB")
    fleet.node("b", "--board", "A100-80GB", nvidia_mig_layout=[{"devices": "all", "mig_enabled": False}])
    run = fleet.play(
        playbook,
        fails=True,
        nvidia_mig_layout=LAYOUT,
        gpu_node_roles=["nvidia_mig", "gpu_cluster", "gpu_operator"],
        gpu_operator_version="v26.7.0",
        gpu_operator_mig_strategy="single",
        gpu_operator_values={"drivr": {}},
        gpu_cluster_kubeconfig=str(fleet.work / "nosuch"),
    )
    message = run.output[run.output.index("Nothing was changed. Problems: 3") :]
    strategy = r"- a: the strategy single needs MIG devices of one profile .*\(gpu_operator_mig_strategy is single\)"
    assert re.search(strategy, message)
    assert "- a: gpu_operator_values has the unknown key drivr (did you mean driver?)" in message
    assert re.search("- a: " + UNREADABLE, message)
    assert fleet.instances("a") == [[]]


def test_stops_before_mig_if_the_driver_needs_a_reboot(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB", nvidia_driver_reboot_required=True)
    run = fleet.play(SITE, "--tags", "mig", fails=True, nvidia_mig_layout=LAYOUT)
    assert "here does not run the installed driver until it is rebooted" in run.output
    assert "nvidia_driver_reboot" in run.output
    assert fleet.instances("here") == [[]]


def test_an_error_of_a_roles_preflight_is_reported_only_for_its_host(fleet: Fleet) -> None:
    fleet.variables["gpu_node_roles"] = ["nvidia_container_toolkit"]
    fleet.node("good", "--board", "A100-80GB")
    fleet.node("old", "--board", "A100-80GB", nvidia_container_toolkit_version="latest")
    fleet.node("older", "--board", "A100-80GB", nvidia_container_toolkit_version="newest")
    run = fleet.play(SITE, "--tags", "toolkit", fails=True)
    message = run.output[run.output.index("Nothing was changed. Problems: %d" % (2 + NOT_ROOT)) :]
    assert "- old: " in message and "- older: " in message
    assert "- good: " not in message
    assert "Provision the nodes" not in run.output


def test_problems_of_variables_do_not_hide_those_of_the_node(fleet: Fleet) -> None:
    """A role whose own variables have problems is not checked on the node. All others are."""
    wrong = {"nvidia_mig_reset": "perhaps", "nvidia_container_toolkit_version": "latest", "gpu_node_roles": ["all"]}
    fleet.node("here", "--board", "A100-80GB", **wrong)
    fleet.node("there", "--board", "A100-80GB", nvidia_mig_access_group="nosuch", nvidia_mig_boot=True)
    run = fleet.play(SITE, "--tags", "toolkit,mig", fails=True, nvidia_mig_layout=LAYOUT, nvidia_mig_layuot=[])
    message = run.output[run.output.index("Nothing was changed. Problems: %d" % (4 + NOT_ROOT)) :]
    for words in (
        "- here, there: nvidia_mig_layuot is not a variable",
        "- here: nvidia_mig_reset is 'perhaps': give true or false",
        "- here: nvidia_container_toolkit_version",
        "- there: it has no group nosuch, which nvidia_mig_access_group names",
    ):
        assert words in message


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
    run = fleet.play(
        playbook, "--start-at-task", "Start the clients that an interrupted run stopped", nvidia_mig_layout=LAYOUT
    )
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


# --- Batches ----------------------------------------------------------------------------------------------------------


def test_stops_after_a_failed_canary(fleet: Fleet) -> None:
    fleet.node("canary", "--board", "A100-80GB", "--activation", "reset")
    fleet.node("other", "--board", "A100-80GB")
    run = fleet.play(SITE, "--tags", "mig", fails=True, nvidia_mig_layout=LAYOUT)
    assert "Set nvidia_mig_reset to true" in run.output
    assert run.count("canary", "failed") == 1
    assert fleet.instances("other") == [[]]


def test_a_pending_gpu_does_not_stop_later_batches(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "H100-80GB")
    fleet.node("other", "--board", "H100-80GB")
    fleet.nvsim("attach", "busy", "--gpu", "0", "--pid", str(os.getpid()), "--name", "training")
    reason = "while PID %d (training) uses the GPU" % os.getpid()
    for playbook, last in ((SITE, "Verify the cluster"), (PLAYBOOKS / "mig.yml", "Report pending GPUs")):
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


# --- verify.yml -------------------------------------------------------------------------------------------------------


def test_verify_reports_host_gpu_and_remedy(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl = fleet.work / "bin" / "systemctl"  # see below
    monkeypatch.setenv("PATH", str(systemctl.parent), prepend=":")
    fleet.node("whole", "--board", "A100-80GB")
    fleet.node("reset", "--board", "A100-80GB", "--gpus", "2", "--uuid", "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60")
    fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT)
    assert fleet.play(VERIFY, nvidia_mig_layout=LAYOUT).count("reset", "changed") == 0

    fleet.nvsim("reset", "reset", "--gpu", "0")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT)
    assert run.count("whole", "failed") == 0
    assert run.count("reset", "failed") == 1
    assert "reset does not match the inventory:" in run.output
    # The map, as --diff shows it: the current and the desired instances of the GPU that differs.
    assert re.search(
        r"layout: GPU 0 GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60\n  -GPU 0 GPU-9f0c[^|\n]* \|\.+\|\n"
        r"  \+GPU 0 GPU-9f0c[^|\n]* \|1g\.10gb\|1g\.10gb\|1g\.10gb\|\.+\|3g\.40gb +\|\n"
        r"  The role last changed the GPUs 20[0-9: -]+ UTC by \S*@\S+ \(it is now 20[0-9: -]+\)\. Apply the layout with mig",
        run.output,
    )
    assert "GPU 1" not in run.output
    assert fleet.instances("reset") == [[], INSTANCES]

    systemctl.parent.mkdir()
    systemctl.write_text("#!/bin/sh\ntest \"$*\" = 'is-enabled --quiet nvidia-mig-manager.service'\n")
    systemctl.chmod(0o755)
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT)
    assert run.count("whole", "failed") == 1
    assert "nvidia-mig-manager.service is enabled" in run.output
    assert "GPUs do not match nvidia_mig_layout: GPU 0 GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60" in run.output


# The record of the machine that runs the tests is not read.
RECORDED = """
- hosts: gpu_nodes
  gather_facts: false
  module_defaults:
    ansible.builtin.setup: {fact_path: "%s"}
  tasks:
    - ansible.builtin.include_role: {name: gpufleet.node.gpu_node, tasks_from: verify}
"""


def test_verify_does_not_check_roles_that_nothing_requests(fleet: Fleet) -> None:
    """On a node where only mig.yml has run, driver and container toolkit came from elsewhere."""
    (fleet.work / "facts").mkdir()
    (fleet.work / "facts" / "gpufleet.fact").write_text('{"nvidia_mig": {"unit": "gpufleet-mig-restore.service"}}')
    playbook = fleet.work / "verify.yml"
    playbook.write_text(RECORDED % (fleet.work / "facts"))
    fleet.node("alone", "--board", "A100-80GB")
    fleet.node("given", "--board", "A100-80GB", nvidia_container_toolkit_hold=False)
    fleet.variables.pop("nvidia_container_toolkit_runtimes")
    fleet.variables.pop("nvidia_container_toolkit_cdi")
    run = fleet.play(playbook, fails=True, gpu_node_roles=["all"], nvidia_mig_layout=OFF)
    assert (run.count("alone", "failed"), run.count("given", "failed")) == (0, 1)
    output = " ".join(run.output.split())
    assert "alone is not verified for nvidia_driver, nvidia_container_toolkit: only nvidia_mig has run on it" in output
    assert "given is not verified for nvidia_driver: " in output
    assert "no package of the container toolkit is installed" in output
    assert "no package of the driver is installed" not in output


def test_verify_names_the_process_that_blocks_the_change(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "H100-80GB")
    fleet.nvsim("attach", "busy", "--gpu", "0", "--pid", str(os.getpid()), "--name", "training")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT, gpu_node_roles=["nvidia_mig"])
    assert re.search(
        r"- GPUs do not match nvidia_mig_layout: GPU 0 GPU-\S+\n  -GPU 0 .*MIG off\n  \+GPU 0 ", run.output
    )
    assert "|  blocked by PID %d (training)\n" % os.getpid() in run.output
    assert "while PID %d (training) uses the GPU. Stop it and run again\n" % os.getpid() in run.output


def test_verify_reports_problems_of_the_host_and_of_the_cluster_together(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB")
    run = fleet.play(
        VERIFY,
        fails=True,
        nvidia_mig_layout=LAYOUT,
        gpu_node_roles=["nvidia_mig", "gpu_cluster", "device_plugin"],
        device_plugin_version="0.20.0",
        gpu_cluster_kubeconfig=str(fleet.work / "nosuch"),
    )
    message = run.output[run.output.index("here does not match the inventory:") :]
    assert "Apply the layout with mig.yml" in message
    assert re.search(UNREADABLE, message)


def test_verify_counts_the_gpus(fleet: Fleet) -> None:
    fleet.node("small", "--board", "A100-80GB", gpu_node_boards=["A100-80GB"] * 2)
    fleet.node("other", "--board", "A100-80GB", gpu_node_boards=["H100-80GB"])
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, nvidia_mig_layout=LAYOUT)
    assert "the driver shows 1 GPUs, and 2 boards are named in gpu_node_boards" in run.output
    assert " is A100-80GB, and H100-80GB is named in gpu_node_boards" in run.output


def test_verify_names_the_gpus_that_cannot_be_read(fleet: Fleet) -> None:
    fleet.node("lost", "--board", "A100-80GB")
    fleet.nvsim("fault", "lost", "nvmlDeviceGetUUID", "--code", "gpu_is_lost", "--always")
    fleet.node("silent", "--board", "A100-80GB")
    fleet.nvsim("fault", "silent", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "--code", "unknown", "--always")
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, gpu_node_roles=["nvidia_driver"])
    assert re.search(r"- GPU 0( [0-9A-F:.]+)?: nvmlDeviceGetUUID: GPU_IS_LOST", run.output)
    assert re.search(r"- GPU 0 00000000:[0-9A-F:.]+: nvmlDeviceGetGpuInstancePossiblePlacements: UNKNOWN", run.output)


def test_verify_reports_a_missing_driver(fleet: Fleet) -> None:
    fleet.host("bare")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT, gpu_node_roles=["nvidia_driver"])
    assert "no driver answers" in run.output
    assert "modprobe nvidia" in run.output or "Install it with site.yml --tags driver" in run.output


def test_verify_reports_a_driver_without_packages(fleet: Fleet) -> None:
    roles = ["nvidia_driver", "nvidia_mig"]
    fleet.node("here", "--board", "A100-80GB", gpu_node_roles=roles, nvidia_mig_layuot=[])
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, nvidia_mig_layout=LAYOUT)
    assert "- no package of the driver is installed, and branch " in run.output
    assert "leave nvidia_driver out of gpu_node_roles" in run.output
    assert "- nvidia_mig_layuot is not a variable of this collection" in run.output


def test_verify_reports_a_stopped_runtime(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB", gpu_node_roles=["nvidia_container_toolkit"])
    run = fleet.play(VERIFY, "--tags", "toolkit", fails=True, nvidia_container_toolkit_runtimes=["crio"])
    assert "- crio is not running. See systemctl status crio" in run.output
    assert "- no package of the container toolkit is installed" in run.output
    assert "site.yml --tags toolkit" in run.output


# --- undo.yml, inventory ----------------------------------------------------------------------------------------------


def test_undo_requires_a_confirmation(fleet: Fleet) -> None:
    fleet.host("first")
    fleet.host("second")
    run = fleet.play(PLAYBOOKS / "undo.yml", fails=True)
    assert "installed on first, second" in run.output
    assert "-e gpu_node_undo_confirmed=true" in run.output
    assert "Remove" not in run.output


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
