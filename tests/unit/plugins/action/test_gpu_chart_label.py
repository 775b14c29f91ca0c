# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins gpu_chart_label and gpu_chart_restart, on a cluster of dictionaries."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_label, gpu_chart_restart
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.runs import Run
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record
from ansible_collections.gpufleet.node.tests.unit.plugins.action.cluster_support import OTHER, Cluster
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, patched, pod

Data = t.Dict[str, t.Any]
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CHANGE = [{"node": "a", "labels": {CONFIG: "new", STATE: None}}]


def manager(name: str, node_name: str = "a") -> Data:
    out = pod(name, node_name, app="nvidia-mig-manager")
    out["metadata"]["uid"] = "uid-" + name
    return out


def cluster(*pods: Data, **labels: str) -> Cluster:
    return Cluster(node("a", **{CONFIG: "old", STATE: "success", **labels}), *pods)


def label(run: t.Callable[..., Data], found: Cluster, **arguments: t.Any) -> Data:
    given = {"nodes": [], "managers": "gpu-operator", **arguments}
    return run(gpu_chart_label, found, **given)


def test_a_failed_configuration_is_replaced(run: t.Callable[..., Data]) -> None:
    """In check mode, it is only read."""
    found = cluster(manager("one"), **{STATE: "failed"})
    preview = label(run, found, nodes=CHANGE, retry=["a"], check=True)
    assert found.calls == ["read"]
    found.calls.clear()
    result = label(run, found, nodes=CHANGE, retry=["a"])
    assert result == preview and result["changed"] and result["diff"][0]["after"] == {CONFIG: "new"}
    assert found.calls == ["read", "patch", "delete", "read", "read", "patch"]
    assert found.node and found.node["metadata"]["labels"][CONFIG] == "new"
    assert STATE not in found.node["metadata"]["labels"]


@pytest.mark.parametrize("verb", ["read", "patch", "delete"])
def test_each_request_is_repeated(run: t.Callable[..., Data], verb: str) -> None:
    found = cluster(manager("one"))
    found.fail = [verb]
    assert "failed" not in label(run, found, nodes=CHANGE)
    assert found.node and found.node["metadata"]["labels"][CONFIG] == "new"


def test_an_api_server_that_stays_away(run: t.Callable[..., Data]) -> None:
    found = cluster()
    found.fail = ["read"] * 99
    result = label(run, found, nodes=CHANGE)
    assert result["failed"] and result["msg"] == "a request to the cluster failed: Connection refused"


def test_a_mig_manager_that_does_not_terminate(run: t.Callable[..., Data]) -> None:
    stuck = manager("one")
    stuck["metadata"]["finalizers"] = ["example.com/hold"]
    found = cluster(stuck)
    assert (
        label(run, found, nodes=CHANGE)["msg"] == "pod one is terminating on node a. A node that is down ends no pods"
        and found.patches == []
    )


def test_a_node_of_another_run_is_not_labelled(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"))
    assert found.node
    found.node = patched(found.node, record.cordon(found.node, OTHER))
    assert "is out of service for another run" in label(run, found, nodes=CHANGE)["msg"]
    assert found.patches == []


@pytest.mark.parametrize(
    ("undo", "labels"), [("own", {CONFIG: "gpufleet-1"}), ("operator", {"nvidia.com/gpu.present": "true"})]
)
def test_undo_removes_labels(run: t.Callable[..., Data], undo: str, labels: t.Dict[str, str]) -> None:
    found = cluster(**labels)
    assert label(run, found, undo=undo, managers="")["changed"]
    assert found.node and not {*labels} & {*found.node["metadata"]["labels"]}
    assert label(run, found, undo=undo, managers="") == {"changed": False}


def test_undo_changes_no_node_of_another_run(run: t.Callable[..., Data]) -> None:
    found = cluster(**{CONFIG: "gpufleet-1"})
    assert found.node
    found.node = patched(found.node, record.cordon(found.node, OTHER))
    assert "is out of service for another run" in label(run, found, undo="own", managers="")["msg"]


@pytest.mark.parametrize(("owner", "changes"), [(runs.current(), True), (None, False), (OTHER, False)])
def test_a_node_that_this_run_must_have_drained(
    run: t.Callable[..., Data], owner: t.Optional[Run], changes: bool
) -> None:
    """Another run may have taken it over, and returned it to service."""
    found = cluster()
    assert found.node
    if owner:
        found.node = patched(found.node, record.cordon(found.node, owner))
    result = label(run, found, nodes=CHANGE, managers="", drained=True, takeover=0)
    assert (found.node["metadata"]["labels"][CONFIG] == "new") is changes
    assert ("another run" in result.get("msg", "")) is not changes


def test_a_node_that_someone_else_changes_at_the_same_time(run: t.Callable[..., Data]) -> None:
    found = cluster()
    patch = found.patch

    def changed_first(requests: t.Sequence[Data]) -> t.List[Data]:
        if not found.patches:
            found.write({"metadata": {"labels": {"other": "x"}}})
        return patch(requests)

    found.patch = changed_first  # type: ignore[method-assign]
    assert "failed" not in label(run, found, nodes=CHANGE, managers="")
    assert found.calls == ["read", "patch", "read", "patch"]
    assert found.node and found.node["metadata"]["labels"][CONFIG] == "new"


def test_a_node_that_is_gone(run: t.Callable[..., Data]) -> None:
    found = cluster()
    found.node = None
    assert label(run, found, nodes=CHANGE)["msg"] == "the cluster no longer has the node a"


def test_a_restart(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"), manager("two"))
    pods = [{"namespace": "gpu-operator", "name": "one", "uid": "uid-one"}]
    assert run(gpu_chart_restart, found, pods=pods, check=True)["changed"] and found.calls == []
    assert run(gpu_chart_restart, found, pods=pods)["changed"]
    assert [each["metadata"]["name"] for each in found.pods] == ["two"]
    assert run(gpu_chart_restart, found, pods=[]) == {"changed": False}
