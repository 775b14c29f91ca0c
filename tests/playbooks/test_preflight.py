# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks before site.yml and mig.yml change any node."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, TOP, Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import (
    GONE,
    INSTANCES,
    LAYOUT,
    NOT_ROOT,
    SITE,
    TOO_MUCH,
    UNREADABLE,
)


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


def test_keys_of_repositories_are_verified_before_anything_is_installed(fleet: Fleet) -> None:
    key = TOP / "tests" / "integration" / "targets" / "node_repository_key" / "files" / "key.asc"
    roles = ["nvidia_driver", "nvidia_container_toolkit"]
    for role in roles:
        fleet.variables[role + "_repository_key"] = str(key)
        fleet.variables[role + "_repository_key_checksum"] = "sha256:" + "0" * 64
    source = {"nvidia_driver_source": "cuda_repository", "nvidia_driver_repository_url": "http://127.0.0.1:1"}
    fleet.node("here", "--board", "A100-80GB", **source)
    run = fleet.play(PLAYBOOKS / "site.yml", fails=True, gpu_node_roles=roles)
    assert "Nothing was changed." in run.output
    for role in roles:
        assert "set %s_repository_key_checksum to its checksum" % role in run.output
