# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins gpu_cluster_drain and gpu_cluster_return, on a cluster of dictionaries."""

from __future__ import annotations

import base64
import os
import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_drain, gpu_cluster_return
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import api
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record, workloads
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.operands import OPERANDS
from ansible_collections.gpufleet.node.tests.unit.plugins.action.cluster_support import (
    BUDGET,
    DEPLOY,
    OTHER,
    OWN,
    Cluster,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import (
    node,
    patched,
    plugin,
    user,
    waiting,
)

Data = t.Dict[str, t.Any]
ENDED = OWN._replace(pid=2**22 + 1)  # no such process


def operator_node() -> Data:
    labels = {"nvidia.com/mig.strategy": "single", DEPLOY + "device-plugin": "true"}
    return node("a", {"nvidia.com/gpu": "7"}, **labels)


def test_drain_and_return(run: t.Callable[..., Data]) -> None:
    before = operator_node()
    cluster = Cluster(before, user("train"), plugin("old-plugin"))
    cluster.pods[1]["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "controller": True}]
    result = run(gpu_cluster_drain, cluster)
    assert result["changed"] and result["evicted"] == ["gpu-operator/train"]
    assert cluster.pods == [] and cluster.node and cluster.node["spec"]["unschedulable"]
    assert run(gpu_cluster_drain, cluster)["changed"] is False
    result = run(gpu_cluster_return, cluster)
    assert result["changed"] and "failed" not in result
    assert cluster.node["metadata"]["labels"] == before["metadata"]["labels"]
    assert not cluster.node["spec"]["unschedulable"] and record.read_record(cluster.node) is None
    assert run(gpu_cluster_return, cluster)["changed"] is False
    assert len(cluster.patches) == 4  # the repeated drain has written nothing


def test_variables_that_are_invalid(run: t.Callable[..., Data]) -> None:
    for module in (gpu_cluster_drain, gpu_cluster_return):
        result = run(module, Cluster(node("a"), user("train")), pods="some")
        assert result["failed"] and result["msg"].startswith("value of gpu_cluster_drain_pods must be one of")


def test_check_mode_writes_nothing(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node(), user("train"), train=1)
    result = run(gpu_cluster_drain, cluster, check=True)
    assert result["changed"] and result["evicted"] == ["gpu-operator/train"]
    rejected = (
        "a: these evictions would be rejected now, and repeated for 20 seconds: pod gpu-operator/train: " + BUDGET
    )
    assert result["warnings"] == [rejected]
    cluster.node = patched(operator_node(), record.cordon(operator_node(), OWN))
    assert run(gpu_cluster_return, cluster, check=True)["changed"]
    assert cluster.patches == [] and len(cluster.pods) == 1


def test_a_budget_delays_the_eviction(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"), user("other"), train=2)
    result = run(gpu_cluster_drain, cluster)
    assert "failed" not in result and result["evicted"] == ["gpu-operator/other", "gpu-operator/train"]
    assert cluster.pods == [] and BUDGET in cluster.shown[1]


def test_a_budget_that_never_allows_it(run: t.Callable[..., Data]) -> None:
    before = node("a")
    cluster = Cluster(before, user("train"), train=99)
    result = run(gpu_cluster_drain, cluster)
    assert result["failed"] and result["msg"] == (
        "a: after 20 seconds, node a is not drained: pod gpu-operator/train: %s. The node is in service, and its GPUs were not "
        "changed" % BUDGET
    )
    assert cluster.node and not cluster.node["spec"]["unschedulable"] and record.read_record(cluster.node) is None
    assert len(cluster.pods) == 1 and result["evicted"] == []


def test_a_pod_that_does_not_terminate(run: t.Callable[..., Data]) -> None:
    stuck = user("train")
    stuck["metadata"]["finalizers"] = ["example.com/hold"]
    result = run(gpu_cluster_drain, Cluster(node("a"), stuck))
    assert "pod gpu-operator/train is terminating (finalizers: example.com/hold)" in result["msg"]


def test_a_pod_that_must_not_be_evicted(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"), user("bare", owner=""))
    result = run(gpu_cluster_drain, cluster)
    assert "pod gpu-operator/bare has no controller" in result["msg"] and len(cluster.pods) == 2
    assert cluster.patches == []


@pytest.mark.parametrize("drained", [False, True])
def test_a_node_that_an_earlier_run_left_and_that_cannot_be_drained(run: t.Callable[..., Data], drained: bool) -> None:
    """Its GPUs may have been changed if it was drained."""
    left = patched(node("a"), record.cordon(node("a"), ENDED))
    cluster = Cluster(patched(left, record.pause(left, ENDED, OPERANDS)) if drained else left, user("bare", owner=""))
    message = run(gpu_cluster_drain, cluster)["msg"]
    assert cluster.node and cluster.node["spec"]["unschedulable"] is drained
    assert ("It was out of service before, and remains so" in message) is drained
    assert message.endswith("The node is in service, and its GPUs were not changed") is not drained
    assert cluster.shown[0].startswith("An earlier run has left node a out of service: this run continues")


@pytest.mark.parametrize(("drains", "returns"), [("read", "read"), ("patch", "patch"), ("evict", "delete")])
@pytest.mark.parametrize("times", [1, 2])
def test_an_api_server_that_is_away_for_a_moment(
    run: t.Callable[..., Data], drains: str, returns: str, times: int
) -> None:
    """At any request: each is repeated."""
    before = operator_node()
    cluster = Cluster(before, user("train"))
    cluster.fail = [drains] * times
    assert "failed" not in run(gpu_cluster_drain, cluster)
    cluster.fail = [returns] * times
    cluster.pods.append(plugin("v", app="nvidia-operator-validator"))
    assert "failed" not in run(gpu_cluster_return, cluster)
    assert cluster.fail == [] and "Connection refused" in "".join(cluster.shown)
    assert cluster.node and not cluster.node["spec"]["unschedulable"]
    assert cluster.node["metadata"]["labels"] == before["metadata"]["labels"]


def test_an_api_server_that_stays_away(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"))
    cluster.fail = ["evict"] + ["read"] * 99
    message = run(gpu_cluster_drain, cluster)["msg"]
    assert "Connection refused" in message and "Node a may still be cordoned" in message
    assert cluster.node and cluster.node["spec"]["unschedulable"]
    cluster = Cluster(operator_node())
    run(gpu_cluster_drain, cluster)
    cluster.fail = ["read"] * 99
    message = run(gpu_cluster_return, cluster)["msg"]
    assert "If its node is out of service, it remains so: run this again to return it" in message


def test_a_write_whose_response_is_lost(run: t.Callable[..., Data]) -> None:
    before = operator_node()
    cluster = Cluster(before, user("train"))
    for module in (gpu_cluster_drain, gpu_cluster_return):
        cluster.lost = 1
        assert "failed" not in run(module, cluster)
    assert cluster.node and cluster.node["metadata"]["labels"] == before["metadata"]["labels"]
    assert not cluster.node["spec"]["unschedulable"]


@pytest.mark.parametrize(
    "error",
    [
        "Failed to import the required Python library (kubernetes) on x",
        "Could not create API client: Invalid kube-config file. No configuration found.",
    ],
)
def test_a_client_that_cannot_send_requests(
    run: t.Callable[..., Data], monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    monkeypatch.setattr(Cluster, "__call__", lambda *_self, **_arguments: {"failed": True, "msg": error})
    cluster = Cluster(node("a"))
    for module in (gpu_cluster_drain, gpu_cluster_return):
        assert error.rstrip(".") in run(module, cluster)["msg"]
    assert cluster.now == 100.0  # without waiting


@pytest.mark.parametrize("reason", ["Unauthorized", "Forbidden"])
def test_a_user_that_the_api_rejects(run: t.Callable[..., Data], monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Not at once, because an API server that has just started may reject requests."""
    error = "(403)\nReason: %s\nHTTP response body: {}" % reason
    monkeypatch.setattr(Cluster, "__call__", lambda *_self, **_arguments: {"failed": True, "msg": error})
    cluster = Cluster(node("a"))
    assert "Check gpu_cluster_kubeconfig" in run(gpu_cluster_drain, cluster, timeout=600)["msg"]
    assert 130 <= cluster.now < 140


def test_a_user_that_the_api_rejects_at_first(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"))
    read = cluster.read

    def denied_first(requests: t.Sequence[Data]) -> t.List[Data]:
        if cluster.now < 120:
            raise ConnectionError("Reason: Forbidden")
        return read(requests)

    cluster.read = denied_first  # type: ignore[method-assign]
    assert "failed" not in run(gpu_cluster_drain, cluster, timeout=600)


def test_a_node_that_is_another_machine(run: t.Callable[..., Data]) -> None:
    other = node("a")
    other["status"]["nodeInfo"] = {"machineID": "b0"}
    given = {name: base64.b64encode(name.encode() + b"\n").decode() for name in ("a0", "b0")}
    assert (
        "machine ID b0, and that of the host is a0"
        in run(gpu_cluster_drain, Cluster(other), machine_id=given["a0"])["msg"]
    )
    assert "failed" not in run(gpu_cluster_drain, Cluster(other), machine_id=given["b0"])


def test_a_host_that_reports_the_name_of_another_node(run: t.Callable[..., Data]) -> None:
    """It can make the machine IDs equal."""
    cluster = Cluster(node("control-plane-1"))
    lying = {"ansible_facts": {"nvidia": {"gpus": []}, "nodename": "control-plane-1"}}
    assert "the cluster has no node named a" in run(gpu_cluster_drain, cluster, variables=lying)["msg"]
    assert cluster.patches == []
    cluster = Cluster(node("a"))
    assert "the host name is 'control-plane-1', and not a" in run(gpu_cluster_drain, cluster, variables=lying)["msg"]
    assert cluster.patches == []


@pytest.mark.parametrize("check", [False, True])
def test_pods_of_daemonsets_that_may_lose_their_gpus(run: t.Callable[..., Data], check: bool) -> None:
    cluster = Cluster(
        node("a"), user("train", 1), user("monitor", 1, owner="DaemonSet"), user("log", owner="DaemonSet")
    )
    (warning,) = run(gpu_cluster_drain, cluster, check=check)["warnings"]
    assert warning.endswith("stay on the node, and may lose their GPUs or MIG devices: gpu-operator/monitor")


def test_a_record_that_someone_removes_during_the_change(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node())
    run(gpu_cluster_drain, cluster)
    cluster.write({"metadata": {"annotations": {record.RECORD: None}}})
    assert cluster.node and cluster.node["spec"]["unschedulable"]
    message = run(gpu_cluster_return, cluster, drained=True)["msg"]
    assert message.endswith("kubectl label node a --overwrite %sdevice-plugin=true && kubectl uncordon a" % DEPLOY)
    assert run(gpu_cluster_return, cluster) == {"changed": False}  # in a run that has not drained it
    # The documented way to return it by hand.
    cluster.write({"metadata": {"labels": operator_node()["metadata"]["labels"]}, "spec": {"unschedulable": False}})
    assert run(gpu_cluster_return, cluster, drained=True) == {"changed": False}


def test_a_node_that_does_not_become_ready_remains_cordoned(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node())
    run(gpu_cluster_drain, cluster)
    assert cluster.node
    cluster.node["status"]["allocatable"] = {}
    result = run(gpu_cluster_return, cluster)
    assert result["failed"] and "node a is not ready, and remains cordoned: a: advertises no GPUs" in result["msg"]
    assert "kubectl uncordon a && kubectl annotate node a gpufleet.node/out-of-service-" in result["msg"]
    assert cluster.node["spec"]["unschedulable"]
    assert cluster.node["metadata"]["labels"][DEPLOY + "device-plugin"] == "true"
    cluster.node["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    assert "failed" not in run(gpu_cluster_return, cluster)
    assert not cluster.node["spec"]["unschedulable"]


@pytest.mark.parametrize(
    "strategy, devices, problem",
    [
        ("single", {"3g.40gb": 1, "1g.10gb": 1}, "MIG devices of one profile on the whole node"),
        ("single", {}, "MIG devices on every GPU"),
        ("mixed", [{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb"]}], "does not use its whole GPU instance"),
    ],
)
def test_a_device_plugin_whose_strategy_a_later_role_changes(
    run: t.Callable[..., Data], strategy: str, devices: object, problem: str
) -> None:
    """It exits at its start, so that neither it nor the pods that need its GPUs can become ready before that."""
    cluster = Cluster(operator_node(), user("train"))
    assert cluster.node
    cluster.node["metadata"]["labels"]["nvidia.com/mig.strategy"] = strategy
    cluster.node["status"]["allocatable"] = {}
    cluster.started = plugin("new-plugin", ready=False)
    cluster.controller = {"metadata": {"uid": "u"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 0}}
    run(gpu_cluster_drain, cluster)
    drained = cluster.now
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": devices}]
    result = run(gpu_cluster_return, cluster, variables={"nvidia_mig_layout": layout})
    assert "failed" not in result and not cluster.node["spec"]["unschedulable"]
    (warning,) = result["warnings"]
    assert problem in warning and "until the role gpu_operator or device_plugin has changed the strategy" in warning
    assert cluster.now == drained  # without waiting


def test_a_node_whose_resources_cannot_be_compared(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node())
    assert cluster.node
    del cluster.node["metadata"]["labels"]["nvidia.com/mig.strategy"]
    cluster.started["spec"]["containers"][0]["env"] = [{"name": "CONFIG_FILE", "value": "/config.yaml"}]
    run(gpu_cluster_drain, cluster)
    (warning,) = run(gpu_cluster_return, cluster)["warnings"]
    assert warning.endswith(
        "was not compared with the layout, because the MIG strategy of its device plugin is unknown"
    )
    assert not cluster.node["spec"]["unschedulable"]


def test_after_a_failed_change_only_the_operator_resumes(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node())
    run(gpu_cluster_drain, cluster)
    assert run(gpu_cluster_return, cluster, uncordon=False)["changed"]
    assert cluster.node and cluster.node["spec"]["unschedulable"]
    assert cluster.node["metadata"]["labels"][DEPLOY + "device-plugin"] == "true"


def test_the_operands_remain_if_the_mig_manager_changes_the_gpus(run: t.Callable[..., Data]) -> None:
    managed = operator_node()
    managed["metadata"]["labels"]["nvidia.com/mig.config"] = "x"
    operand = plugin("plugin", app="nvidia-device-plugin-daemonset")
    validator = plugin("validator", app="nvidia-operator-validator")
    for each in (operand, validator):
        each["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "controller": True}]
    cluster = Cluster(managed, user("train"), operand, validator)
    assert "failed" not in run(gpu_cluster_drain, cluster, gpus=None, by_operator=True)
    assert cluster.pods == [operand, validator]
    assert "failed" not in run(gpu_cluster_return, cluster, by_operator=True)
    assert "deletionTimestamp" not in validator["metadata"]  # the MIG manager has restarted it
    assert cluster.node and not cluster.node["spec"]["unschedulable"]


def test_controllers_that_cannot_be_read_are_not_if_no_pods_are_waited_for(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"))
    read = cluster.read

    def denied(requests: t.Sequence[Data]) -> t.List[Data]:
        failed = any(each["kind"] == "ReplicaSet" for each in requests)
        return [{"msg": "Forbidden"}] if failed else read(requests)

    cluster.read = denied  # type: ignore[method-assign]
    assert "Forbidden" in run(gpu_cluster_drain, cluster)["msg"]
    assert "failed" not in run(gpu_cluster_drain, cluster, wait_for_pods=False)


def test_pods_that_start_before_the_node_is_cordoned_are_planned_too(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"))
    write = cluster.patch

    def later(requests: t.Sequence[Data]) -> t.List[Data]:
        if not cluster.patches:
            cluster.pods.append(user("bare", owner=""))
        return write(requests)

    cluster.patch = later  # type: ignore[method-assign]
    message = run(gpu_cluster_drain, cluster)["msg"]
    assert "pod gpu-operator/bare has no controller" in message and "The node is in service" in message
    assert "evict" not in cluster.calls


def test_the_connection_to_the_host_with_the_client_fails_for_a_moment(run: t.Callable[..., Data]) -> None:
    """Ansible would give the host up, and leave its node out of service."""
    cluster = Cluster(node("a"), user("train"), train=1)
    request = cluster.evict
    failures = [AnsibleConnectionFailure("Failed to connect to the host via ssh")]

    def fails(requests: t.Sequence[Data]) -> t.List[Data]:
        if failures:
            raise failures.pop()
        return request(requests)

    cluster.evict = fails  # type: ignore[method-assign]
    assert "failed" not in run(gpu_cluster_drain, cluster)
    assert "Failed to connect to the host via ssh" in cluster.shown[1] and cluster.pods == []


def test_a_rejected_password_is_not_tried_again(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"))

    def rejects(_requests: t.Sequence[Data]) -> t.NoReturn:
        raise AnsibleAuthenticationFailure("Permission denied")

    cluster.read = rejects  # type: ignore[method-assign]
    assert "Permission denied" in run(gpu_cluster_drain, cluster)["msg"] and len(cluster.calls) == 1


def test_nothing_is_read_twice(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train"))
    run(gpu_cluster_drain, cluster, gpus=None, by_operator=True)
    # The node with its pods, and their controllers; then the same of the cordoned node, whose pods are still there in the
    # first reading after their eviction.
    assert cluster.calls == ["read", "read", "patch", "read", "read", "evict", "read", "read", "patch"]
    cluster.calls.clear()
    run(gpu_cluster_return, cluster, by_operator=True)
    assert cluster.calls == ["read", "patch"]


def test_a_run_that_continues_an_eviction_does_not_wait_for_the_evicted_pods(run: t.Callable[..., Data]) -> None:
    pod = user("train", uid="a")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "rs", "controller": True}
    ]
    cluster = Cluster(node("a"), pod)
    cluster.controller = {"metadata": {"uid": "rs"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
    (workload,) = workloads.counted(workloads.workloads_of([pod]), [[cluster.controller]])
    cluster.write(record.cordon(cluster.node or {}, ENDED, [workload]))
    pod["metadata"]["deletionTimestamp"] = "2026-11-25T00:00:00Z"
    cluster.controller["status"] = {}  # the new pod finds no other node
    assert "failed" not in run(gpu_cluster_drain, cluster)
    assert record.read_record(cluster.node or {}).workloads[0].ready == 1  # type: ignore[union-attr]


def test_undo_returns_no_node_that_was_removed_before(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"))
    cluster.node = None
    assert "no node named a" in run(gpu_cluster_return, cluster)["msg"]
    result = run(gpu_cluster_return, cluster, wait=False)
    assert not result["changed"] and "Nothing was returned to service" in result["warnings"][0]


def test_any_gpu_may_change_without_a_plan(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("a"), user("train", gpus=1), user("web"))
    assert run(gpu_cluster_drain, cluster, gpus=None, pods="affected")["evicted"] == ["gpu-operator/train"]


def test_two_runs_at_once(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node(), user("train"))
    cluster.run = OWN._replace(place="elsewhere pid:[1]")
    assert "failed" not in run(gpu_cluster_drain, cluster)
    first, cluster.run = cluster.node, OWN
    for module in (gpu_cluster_drain, gpu_cluster_return):
        result = run(module, cluster)
        assert "node a is out of service for another run, process %d on elsewhere" % OWN.pid in result["msg"]
    # After the drain has failed, the error is not repeated.
    result = run(gpu_cluster_return, cluster, uncordon=False)
    assert result == {"changed": False, "warnings": ["a: another run has its node out of service, and returns it"]}
    assert cluster.node == first
    # It may have ended.
    assert "failed" not in run(gpu_cluster_return, cluster, takeover=0)
    assert cluster.node and not cluster.node["spec"]["unschedulable"]


def test_a_run_whose_node_was_taken_over_changes_nothing_more(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(operator_node(), user("train"))
    run(gpu_cluster_drain, cluster)
    reads = cluster.read

    def taken(requests: t.Sequence[Data]) -> t.List[Data]:
        """After the first request of return, which reads the node."""
        found = reads(requests)
        if len(requests) == 2:
            assert cluster.node is not None
            cluster.write(record.cordon(cluster.node, OTHER))
        return found

    cluster.read = taken  # type: ignore[method-assign]
    assert "is out of service for another run" in run(gpu_cluster_return, cluster)["msg"]
    assert cluster.node and cluster.node["spec"]["unschedulable"]
    assert cluster.node["metadata"]["labels"][DEPLOY + "device-plugin"] == "paused-for-mig-change"


@pytest.mark.parametrize("returned", [False, True])
def test_another_run_takes_over(run: t.Callable[..., Data], returned: bool) -> None:
    """From a controller whose run it takes to have ended, so that this one must not evict or pause anything else."""
    cluster = Cluster(operator_node(), user("train"), train=9)

    def other(shown: str) -> None:
        assert cluster.node
        if BUDGET not in shown:
            return
        cluster.write(record.cordon(cluster.node, OTHER))
        if returned:
            cluster.write(record.uncordon(cluster.node))
        cluster.patches.clear()

    cluster.shown = SimpleNamespace(append=other)  # type: ignore[assignment]
    message = run(gpu_cluster_drain, cluster)["msg"]
    assert ("may have returned it to service" if returned else "is out of service for another run") in message
    assert cluster.calls.count("evict") == 1 and cluster.patches == []


def test_a_run_that_is_killed(run: t.Callable[..., Data], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker processes go on."""
    cluster = Cluster(operator_node(), user("train"), train=9)
    parents = [os.getppid(), -1]  # the PID of no process
    killed = SimpleNamespace(append=lambda text: BUDGET in text and parents.pop(0))
    monkeypatch.setattr(api.os, "getppid", lambda: parents[0])
    cluster.shown = killed  # type: ignore[assignment]
    assert "ansible-playbook has ended" in run(gpu_cluster_drain, cluster)["msg"]
    assert cluster.calls.count("evict") == 1 and len(cluster.patches) == 1


def test_the_evicted_pods_must_become_ready_again(run: t.Callable[..., Data]) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "rs", "controller": True}
    evicted, new = user("train-a", uid="a"), user("train-b", uid="b")
    new["status"] = waiting("x", "ImagePullBackOff", "no such image")["status"]
    for pod in (evicted, new):
        pod["metadata"]["ownerReferences"] = [owner]
    cluster = Cluster(node("a"), evicted)
    cluster.controller = {"metadata": {"uid": "rs"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
    run(gpu_cluster_drain, cluster)
    cluster.controller["status"] = {}
    cluster.pods.append(new)
    result = run(gpu_cluster_return, cluster)
    assert result["msg"] == (
        "a: after 20 seconds, pods that were evicted from node a are not ready again: ReplicaSet train in namespace "
        "gpu-operator has 0 ready pods, and had 1 before; container main of pod train-b: ImagePullBackOff: no such image. "
        "The node is in service. Resolve this before other nodes are drained, or set gpu_cluster_drain_wait_for_pods to "
        "false"
    )
    assert cluster.node and not cluster.node["spec"]["unschedulable"]
    # The next run does not drain another node of this workload.
    result = run(gpu_cluster_drain, cluster)
    assert "ReplicaSet train in namespace gpu-operator has 0 of 1 pods ready. Resolve this, or set" in result["msg"]
    assert result["msg"].endswith("The node is in service, and its GPUs were not changed") and len(cluster.pods) == 1
    assert not result["changed"] and result["evicted"] == []
    assert "failed" not in run(gpu_cluster_drain, cluster, wait_for_pods=False)
    assert "failed" not in run(gpu_cluster_return, cluster, wait_for_pods=False)


def test_a_host_without_a_node(run: t.Callable[..., Data]) -> None:
    cluster = Cluster(node("other"))
    for module in (gpu_cluster_drain, gpu_cluster_return):
        assert "the cluster has no node named a: set gpu_cluster_node_name" in run(module, cluster)["msg"]
