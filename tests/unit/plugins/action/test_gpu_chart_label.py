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


def test_the_mig_manager_is_restarted_before_its_label_changes(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"))
    result = label(run, found, nodes=CHANGE)
    assert result["changed"] and found.calls == ["read", "delete", "read", "read", "patch"]
    assert found.node and found.node["metadata"]["labels"][CONFIG] == "new"
    assert STATE not in found.node["metadata"]["labels"]
    assert result["diff"][0]["before"] == {CONFIG: "old", STATE: "success"}
    assert result["diff"][0]["after"] == {CONFIG: "new"}


def test_a_failed_configuration_is_applied_again(run: t.Callable[..., Data]) -> None:
    """Its state is removed before the MIG manager, which sets it again, is restarted."""
    found = cluster(manager("one"), **{STATE: "failed"})
    assert label(run, found, retry=["a"])["changed"]
    assert found.calls == ["read", "patch", "delete", "read", "read"]
    assert found.patches == [{"metadata": {"labels": {STATE: None}}}]


def test_mig_managers_on_other_nodes_keep_running(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one", "b"))
    label(run, found, nodes=CHANGE)
    assert found.calls == ["read", "patch"]


REMOVAL = [{"node": "a", "labels": {CONFIG: None, STATE: None}}]


def test_labels_are_removed_after_the_mig_manager_has_ended(run: t.Callable[..., Data]) -> None:
    """One that starts would apply the old configuration again, and one that runs the default of the operator."""
    ending = manager("one")
    found = cluster(ending, manager("elsewhere", "b"))
    reading = found.read

    def ends(requests: t.Sequence[Data]) -> t.List[Data]:
        assert found.patches == []
        if found.calls.count("read") == 3:  # the DaemonSet was deleted
            ending["metadata"]["deletionTimestamp"] = "now"
        return reading(requests)

    found.read = ends  # type: ignore[method-assign]
    assert label(run, found, nodes=REMOVAL)["changed"]
    assert found.calls == ["read"] * 3 + ["patch"]
    assert found.node and not {CONFIG, STATE} & set(found.node["metadata"]["labels"])


def test_labels_stay_while_the_mig_manager_runs(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"))
    message = label(run, found, nodes=REMOVAL)["msg"]
    assert message.startswith("the MIG manager still runs on node a, although the chart has disabled it")
    assert found.patches == []


def test_labels_that_no_mig_manager_reads(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"))
    label(run, found, nodes=CHANGE, managers="")
    assert found.calls == ["read", "patch"]


def test_nothing_to_label(run: t.Callable[..., Data]) -> None:
    found = cluster()
    assert label(run, found) == {"changed": False} and found.calls == []


def test_check_mode_shows_the_difference(run: t.Callable[..., Data]) -> None:
    found = cluster(manager("one"))
    result = label(run, found, nodes=CHANGE, check=True)
    assert result["changed"] and result["diff"][0]["after"] == {CONFIG: "new"} and found.calls == ["read"]


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


OURS = {CONFIG: "gpufleet-1", STATE: "success", "nvidia.com/device-plugin.config": "gpufleet-2"}


def test_undo_removes_the_labels_of_this_collection(run: t.Callable[..., Data]) -> None:
    found = cluster(**OURS)
    assert label(run, found, undo="own", managers="")["changed"]
    assert found.node and not {*OURS} & {*found.node["metadata"]["labels"]}
    assert label(run, found, undo="own", managers="") == {"changed": False}


def test_undo_keeps_the_labels_of_others(run: t.Callable[..., Data]) -> None:
    assert label(run, cluster(), undo="own", managers="") == {"changed": False}


def test_undo_removes_what_only_the_operator_writes(run: t.Callable[..., Data]) -> None:
    deploy = "nvidia.com/gpu.deploy."
    written = {"nvidia.com/gpu.present": "true", deploy + "dcgm": "true", deploy + "nvsm": "paused-for-mig-change"}
    users = {deploy + "operands": "false", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    found = cluster(**written, **users)
    assert label(run, found, undo="operator", managers="")["changed"]
    assert found.node and found.node["metadata"]["labels"].items() >= users.items()
    assert not {*written} & {*found.node["metadata"]["labels"]}
    assert label(run, found, undo="operator", managers="") == {"changed": False}


def test_undo_changes_no_node_of_another_run(run: t.Callable[..., Data]) -> None:
    found = cluster(**OURS)
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
