# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Differences between the inventory and a node, and what cannot be read."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import hosts
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import (
    INSTANCES,
    read,
    report,
    state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, gpu, instance


def problems(result=None, **variables):
    return list(report(read("gpu1", result, **variables)).hosts["gpu1"].problems)


def only(kind, pattern, result=None, **variables):
    (found,) = problems(result, **variables)
    assert found.kind == kind
    assert re.search(pattern, found.text), found.text
    return found


def test_a_node_that_matches_the_inventory_has_no_problem():
    assert problems(gpu_node_boards=["A100-80GB"], nvidia_driver_version="580.95.05-1ubuntu1") == []


def test_a_gpu_that_differs_has_the_operations_and_the_desired_instances():
    wrong = gpu(0, instance(2, "3g.40gb", 4, 4), instance(7, "4g.40gb", 0, 4))
    found = only("layout", "destroy GPU instance 4g.40gb at 0:4; create GPU instance 1g.10gb at", state(wrong))
    assert found.gpu == 0
    assert sorted(row["profile"] for row in found.desired) == ["1g.10gb", "1g.10gb", "3g.40gb"]
    off = gpu(0, current=False)
    assert only("layout", "turn MIG mode on", state(off)).desired


def test_without_a_layout_nothing_is_compared():
    assert problems(state(gpu(0)), nvidia_mig_layout=None) == []
    assert problems(state(nvidia={"gpus": []})) == []


@pytest.mark.parametrize(
    ("variables", "kind", "pattern"),
    [
        ({"nvidia_mig_layout": "seven"}, "layout", "nvidia_mig_layout is invalid"),
        ({"nvidia_mig_layout": [{"devices": [7], "mig_enabled": False}]}, "layout", "7"),
        ({"gpu_node_boards": ["A100-80GB", "A100-80GB"]}, "boards", "shows 1 GPUs, and 2 boards are named"),
        ({"gpu_node_boards": ["H100-80GB"]}, "boards", "is A100-80GB, and H100-80GB is named"),
        ({"nvidia_driver_version": "580.1"}, "driver", "driver 580.95.05, and nvidia_driver_version is 580.1"),
        ({"nvidia_driver_branch": "570"}, "driver", "nvidia_driver_branch is 570"),
        ({"nvidia_container_toolkit_version": "1.17.0"}, "toolkit", "container toolkit 1.20.1, and .* is 1.17.0"),
    ],
)
def test_differences_from_variables(variables, kind, pattern):
    only(kind, pattern, **variables)


def test_a_driver_that_was_upgraded_needs_a_reboot():
    kernel = {"versions_match": False, "loaded_version": "570.1", "installed_version": "580.2"}
    only("driver", "runs driver 570.1, and 580.2 is installed. Reboot", state(nvidia={"kernel_module": kernel}))


def test_gpus_that_cannot_be_read_are_no_differences():
    found = problems(state(gpu(0, *INSTANCES), LOST))
    assert [(each.kind, each.gpu) for each in found] == [("unreadable", 1)]
    assert "GPU_IS_LOST" in found[0].text
    unlisted = {**LOST, "index": None, "problem": None}
    only("unreadable", "00000000:48:00.0 is on the PCI bus, but the driver", state(gpu(0, *INSTANCES), unlisted))
    driver = {"version": None, "source": None, "problem": "libnvidia-ml.so.1: LIBRARY_NOT_FOUND"}
    only("unreadable", "the driver cannot be used: .*LIBRARY", state(nvidia={"driver": driver, "gpus": None}))
    without = {"driver": driver, "gpus": []}  # such as a server of a cluster
    assert problems(state(nvidia=without)) == []
    kinds = [each.kind for each in problems(state(nvidia=without), gpu_node_boards=["A100-80GB"])]
    assert kinds == ["unreadable", "boards"]


def test_a_gpu_of_an_unknown_board_is_not_compared():
    found = only("unknown", "its layout cannot be compared: .*unknown board", state(gpu(0, pci_device_id="0xFFFF10DE")))
    assert found.gpu == 0


def test_a_node_that_other_tasks_have_drained_is_out_of_service():
    only("service", "gpu_node_drain_tasks", state(drained=True))


def test_two_hosts_that_report_the_same_gpu():
    """Such as one machine with two names in the inventory. What is unknown is not the same."""
    same, own, unknown = gpu(0, *INSTANCES), gpu(1, *INSTANCES, uuid="GPU-own"), gpu(2, *INSTANCES, uuid=None)
    states = {"a": state(same, own, unknown), "b": state(same, unknown), "c": state(unknown)}
    found = report(*(hosts.of_variables(name, {}, states[name]) for name in states))
    texts = {name: [each.text for each in host.problems] for name, host in found.hosts.items()}
    text = "GPU UUID %s is also reported by %s. Compare the addresses of these hosts, such as ansible_host"
    assert texts == {"a": [text % (same["uuid"], "b")], "b": [text % (same["uuid"], "a")], "c": []}


@pytest.mark.parametrize(
    ("result", "kind", "reason"),
    [
        (
            {"unreachable": True, "msg": "Connection timed out\n"},
            "unreachable",
            "it cannot be reached: Connection timed out",
        ),
        (
            {
                "unreachable": True,
                "msg": 'Task failed: Data could not be sent to remote host "a". Make sure this host can be reached '
                "over ssh: ssh: connect to host a port 22: Connection refused",
            },
            "unreachable",
            "it cannot be reached: ssh: connect to host a port 22",
        ),
        (
            {"unreachable": True, "msg": "Task failed: Failed to connect to the host via ssh: ssh: connect to host a"},
            "unreachable",
            "it cannot be reached: ssh: connect to host a",
        ),
        (
            {"unreachable": True, "msg": "Task failed: Data could not be sent to remote host 'a': Broken pipe"},
            "unreachable",
            "it cannot be reached: Data could not be sent to remote host 'a': Broken pipe",
        ),
        ({"failed": True, "msg": "Task failed: Module failed: no Python"}, "failed", "it cannot be read: no Python"),
        ({"nvidia": {"gpus": "<b>"}}, "failed", "it returned something else than its GPUs"),
        ("nonsense", "failed", "the run did not read it"),
        (None, "failed", "the run did not read it"),
    ],
)
def test_a_host_that_cannot_be_read_has_the_reason_and_no_facts(result, kind, reason):
    host = report(hosts.of_variables("gpu1", {"nvidia_mig_layout": []}, result)).hosts["gpu1"]
    assert (host.facts, host.toolkit, host.drained) == (None, None, None)
    assert [each.kind for each in host.problems] == [kind]
    assert reason in str(host.error)


def test_variables_that_cannot_be_read_are_a_problem_of_the_host():
    class Variables(dict):
        def __getitem__(self, name):
            raise ValueError("'x' is undefined")

    def read_host(result):
        return report(hosts.of_variables("gpu1", Variables(nvidia_mig_layout=1), result)).hosts["gpu1"]

    found, text = read_host(state()), "its variables cannot be read: 'x' is undefined"
    assert found.facts is not None
    assert ([(each.kind, each.text) for each in found.problems], found.error) == ([("variables", text)], text)
    lost = read_host({"unreachable": True, "msg": "timed out"})
    assert [each.kind for each in lost.problems] == ["unreachable", "variables"]
    assert lost.error == "it cannot be reached: timed out; %s" % text


@pytest.mark.parametrize(
    "wrong",
    [
        {"slices": "three"},
        {"slices": [3]},
        {"uuid": {"a": 1}, "slices": None},
        {"profile": 7},
    ],
)
def test_a_node_that_returns_nonsense_is_a_host_that_cannot_be_read_or_differs(wrong):
    broken = instance(2, "3g.40gb", 4, 4)
    broken["compute_instances"][0].update(wrong)
    assert problems(state(gpu(0, broken), nvidia={"kernel_module": 7 if "profile" in wrong else {}}))
