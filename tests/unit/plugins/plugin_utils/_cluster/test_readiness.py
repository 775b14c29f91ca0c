# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readiness of nodes: allocatable resources, MIG state, validator, and the reasons of failures."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import Container, ExpectedNode
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, pod, waiting

SEVEN = {"nvidia.com/gpu": 7}
LABEL = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
VALIDATOR = pod("validator-1", "a", app="nvidia-operator-validator")
MANAGER = pod("manager-1", "a", app="nvidia-mig-manager")


def state(expected: ExpectedNode, found: t.Dict[str, t.Any], *pods: t.Dict[str, t.Any]) -> readiness.State:
    return readiness.nodes_state({"a": expected}, [found, node("other")], pods)


def test_ready() -> None:
    found = node("a", {"nvidia.com/gpu": "7"}, **{LABEL: "x", STATE: "success"})
    assert state(ExpectedNode(SEVEN, "x", True), found, VALIDATOR).ready


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}, {"nvidia.com/mig-1g.10gb": 7}),
        ({"nvidia.com/gpu": "2k"}, {"nvidia.com/gpu": 2000}),
        ({"nvidia.com/gpu": "7", "nvidia.com/gpumem": "80Gi", "nvidia.com/hostdev": "4"}, {"nvidia.com/gpu": 7}),
        ({"nvidia.com/gpu": "0"}, {}),
        ({"nvidia.com/gpu": "3"}, None),
    ],
)
def test_allocatable_that_matches(offered: t.Dict[str, str], expected: t.Optional[t.Dict[str, int]]) -> None:
    assert state(ExpectedNode(expected), node("a", offered)).ready


@pytest.mark.parametrize(
    ("offered", "text"),
    [
        ({}, "a: advertises no GPUs, should advertise nvidia.com/gpu: 7"),
        ({"nvidia.com/gpu": "1"}, "a: advertises nvidia.com/gpu: 1, should advertise nvidia.com/gpu: 7"),
        (
            {"nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "1"},
            "a: advertises nvidia.com/gpu: 7, nvidia.com/mig-1g.10gb: 1, should advertise nvidia.com/gpu: 7 (if this "
            "persists, restart the node's kubelet, which kept removed resources)",
        ),
    ],
)
def test_allocatable_that_differs(offered: t.Dict[str, str], text: str) -> None:
    found = state(ExpectedNode(SEVEN), node("a", offered))
    assert not found.ready and found.waiting == (text,) and found.failed == ()


@pytest.mark.parametrize(
    ("labels", "waits", "failed"),
    [
        ({LABEL: "x", STATE: "success"}, [], []),
        ({LABEL: "x", STATE: "pending"}, ["a: MIG configuration pending"], []),
        ({LABEL: "x", STATE: "rebooting"}, ["a: MIG configuration rebooting"], []),
        ({LABEL: "x"}, ["a: MIG configuration not applied yet"], []),
        ({LABEL: "x", STATE: "failed"}, [], ["a: the MIG manager could not apply x"]),
        ({LABEL: "y", STATE: "success"}, [], ["a: another owner changed its label nvidia.com/mig.config to y"]),
        ({STATE: "success"}, [], ["a: another owner changed its label nvidia.com/mig.config to None"]),
    ],
)
def test_the_mig_state_is_about_this_configuration(
    labels: t.Dict[str, str], waits: t.Sequence[str], failed: t.Sequence[str]
) -> None:
    found = state(ExpectedNode(SEVEN, "x"), node("a", {"nvidia.com/gpu": "7"}, **labels))
    assert (list(found.waiting), list(found.failed)) == (waits, failed)


def test_a_failed_configuration_is_explained_by_the_mig_manager() -> None:
    found = state(ExpectedNode(SEVEN, "x"), node("a", **{LABEL: "x", STATE: "failed"}), VALIDATOR, MANAGER)
    assert found.failed_container == Container("gpu-operator", "manager-1", "main", False)


@pytest.mark.parametrize(
    ("pods", "ready"),
    [
        ([VALIDATOR], True),
        ([], False),
        ([pod("v", "a", ready=False, app="nvidia-operator-validator")], False),
        ([pod("v", "other", app="nvidia-operator-validator")], False),
        ([{**VALIDATOR, "metadata": {**VALIDATOR["metadata"], "deletionTimestamp": "2026-11-23T06:00:00Z"}}], False),
    ],
)
def test_the_validator(pods: t.Sequence[t.Dict[str, t.Any]], ready: bool) -> None:
    found = state(ExpectedNode(SEVEN, validator=True), node("a", {"nvidia.com/gpu": "7"}), *pods)
    assert found.ready is ready


def test_nodes_that_are_gone_or_not_ready() -> None:
    assert readiness.nodes_state({"a": ExpectedNode()}, [], []).failed == ("a: the cluster no longer has this node",)
    joining = node("a")
    del joining["status"]["conditions"]
    for each in (node("a", ready=False), joining):
        assert state(ExpectedNode(), each).waiting == ("a: the node is not ready",)


@pytest.mark.parametrize(
    ("found", "text", "failed_container"),
    [
        (
            waiting("p", "ImagePullBackOff", "Back-off pulling\n image"),
            "container main of pod p: ImagePullBackOff: Back-off pulling image",
            None,
        ),
        (waiting("p", "CreateContainerError"), "container main of pod p: CreateContainerError", None),
        (
            waiting("p", "CrashLoopBackOff", "back-off", last=2),
            "container main of pod p ended with status 2",
            Container("gpu-operator", "p", "main", True),
        ),
    ],
)
def test_reasons_of_pods(found: t.Dict[str, t.Any], text: str, failed_container: t.Optional[Container]) -> None:
    seen = state(ExpectedNode(SEVEN), node("a"), found)
    assert seen.waiting[1:] == (text,)
    assert seen.failed_container == failed_container


def test_other_pods_need_no_explanation() -> None:
    done = waiting("helm-install", "Error")
    done["status"]["phase"] = "Succeeded"
    seen = state(ExpectedNode(SEVEN), node("a"), pod("p"), waiting("q", "ContainerCreating"), done)
    assert len(seen.waiting) == 1


def test_a_failed_job_and_an_unschedulable_pod() -> None:
    job = pod("helm-install-1", ready=False)
    job["status"]["containerStatuses"] = [{"name": "helm", "state": {"terminated": {"exitCode": 1}}}]
    full = pod("p", ready=False)
    full["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
    }
    seen = state(ExpectedNode(SEVEN), node("a"), full, job)
    assert seen.waiting[1:] == (
        "pod p is not scheduled: 0/1 nodes are available",
        "container helm of pod helm-install-1 ended with status 1",
    )
    assert seen.failed_container == Container("gpu-operator", "helm-install-1", "helm", False)


def test_pods_that_cannot_start_on_ready_nodes() -> None:
    found = node("a", {"nvidia.com/gpu": "7"})
    broken = waiting("p", "ImagePullBackOff", node_name="other")
    assert state(ExpectedNode(SEVEN), found, broken).waiting == ("container main of pod p: ImagePullBackOff",)
    broken["metadata"]["ownerReferences"] = [{"kind": "DaemonSet"}]
    assert state(ExpectedNode(SEVEN), found, broken).ready  # its node is not one of the play
    assert readiness.nodes_state({}, [found], [broken]).ready  # all nodes of the play are changed later
    broken["spec"]["nodeName"] = "a"
    assert not state(ExpectedNode(SEVEN), found, broken).ready
    broken["status"]["phase"] = "Failed"  # replaced by another pod
    assert state(ExpectedNode(SEVEN), found, broken).ready


def test_a_chart_that_is_being_installed() -> None:
    job = pod("helm-install-1", **{"helmcharts.helm.cattle.io/chart": "gpu-operator"})
    found = node("a", {"nvidia.com/gpu": "7"})
    assert state(ExpectedNode(SEVEN), found, job).waiting == ("the chart is being installed by pod helm-install-1",)
    job["status"]["phase"] = "Succeeded"
    assert state(ExpectedNode(SEVEN), found, job).ready


def test_pods_that_no_node_accepts_because_this_collection_has_cordoned_it() -> None:
    """The operator's own Deployments on a cluster with one node: waiting for them would be waiting for oneself."""
    pending = pod("gpu-operator-1", ready=False)
    pending["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "x"}]}
    found = node("a", {"nvidia.com/gpu": "7"})
    commands = ["kubectl uncordon a"]
    assert not state(ExpectedNode(SEVEN), found, pending).ready
    assert readiness.nodes_state({"a": ExpectedNode(SEVEN)}, [found], [pending], commands).ready
    # If there is another reason to wait, or the chart was not installed, the command is shown.
    reasons = (
        "pod gpu-operator-1 is not scheduled: x",
        "an interrupted run has left nodes out of service. Return one with: ",
    )
    for expected, first in ({"a": ExpectedNode({"nvidia.com/gpu": 8})}, 1), ({}, 0):
        waits = readiness.nodes_state(expected, [found], [pending], commands).waiting[first:]
        assert waits == (reasons[0], reasons[1] + commands[0])
    pending["metadata"]["labels"] = {"helmcharts.helm.cattle.io/chart": "gpu-operator"}
    seen = readiness.nodes_state({"a": ExpectedNode(SEVEN)}, [found], [pending], commands)
    assert seen.failed == ("the chart is not installed, because no node accepts pod gpu-operator-1",)
    assert seen.waiting[-1] == reasons[1] + commands[0]


def test_device_plugins_that_read_mig_before_its_last_change() -> None:
    plugins = [
        pod("old", "a", started="2026-11-23T06:00:00Z"),
        pod("new", "b", started="2026-11-23T07:00:00Z"),
        pod("x", "c"),
    ]
    plugins[0]["metadata"]["uid"] = "uid-old"
    changed = {"a": 1795413700.0, "b": 1795413700.0}  # 2026-11-23T06:01:40Z
    assert readiness.outdated_plugins(plugins, changed) == [
        {"namespace": "gpu-operator", "name": "old", "uid": "uid-old"}
    ]
    assert readiness.outdated_plugins([waiting("crashed", "CrashLoopBackOff", node_name="a")], changed) == []
