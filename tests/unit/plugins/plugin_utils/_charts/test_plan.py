# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans and problems of the roles that install charts in a cluster."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import inputs
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import DEVICE_PLUGIN, GPU_OPERATOR
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.objects import is_ours
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record as drain_record
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import problems as layout_problems
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import (
    OWN,
    PLUGIN,
    RECORD,
    A,
    B,
    built,
    plan,
    problems,
    written,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import daemonset, node, pod

Data = t.Dict[str, t.Any]
LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
OWNED_BY_HOST = {"validator": True, "replicas": {}, "profile": None, "config": ""}


def test_a_plan_of_the_operator() -> None:
    found = plan(own={"version": "v26.7.0"})
    assert found.problems == {"a": [], "b": []} and found.warnings == [] and not found.missing
    assert built(found).serialized()["expected"] == {
        "a": {"resources": {"nvidia.com/mig-1g.10gb": 7}, **OWNED_BY_HOST},
        "b": {"resources": {"nvidia.com/mig-1g.10gb": 8, "nvidia.com/mig-3g.40gb": 2}, **OWNED_BY_HOST},
    }
    assert yaml.safe_load(built(found).helm_chart.definition["spec"]["valuesContent"]) == built(found).chart_values
    assert [each.definition["kind"] for each in built(found).objects] == ["Namespace"] and built(found).labels == []
    assert (built(found).plugin_labels, built(found).while_drained) == ([], {})


def test_a_newer_release_of_the_chart_is_a_warning() -> None:
    found = plan(own={"version": "v27.1.0", "values": {"driver": {"enable": False}, "cdi": {"enabled": True}}})
    assert found.warnings == [
        "gpu_operator_version is v27.1.0, which is newer than the releases that this version of the collection supports: "
        "values are checked with the keys of the newest of them, 26.7",
        "gpu_operator_values.driver.enable (did you mean enabled?) is unknown in gpu-operator 26.7: check that the chart "
        "of v27.1.0 has it",
    ]
    assert built(found).chart_values["driver"] == {"enable": False, "enabled": False}


def test_two_hosts_with_one_node() -> None:
    found = plan(A._replace(node_name="a"), B._replace(node_name="a"))
    assert found.problems == {
        "a": [],
        "b": ["the host a has the same node a: set gpu_cluster_node_name to different nodes"],
    }


def test_hosts_without_gpus_need_not_be_nodes() -> None:
    found = plan(A, Host("server", gpus=[]))
    assert list(built(found).expected) == ["a"]


@pytest.mark.parametrize("version", ["v1.35.7+rke2r1", "v1.34.1+k3s1"])
def test_the_operators_toolkit_finds_the_containerd_of_rke2(version: str) -> None:
    found = node("a")
    found["status"]["nodeInfo"]["kubeletVersion"] = version
    planned = plan(A, own={"toolkit": "operator"}, cluster={"nodes": {"resources": [found]}})
    assert built(planned).chart_values["toolkit"]["env"][0]["name"] == "CONTAINERD_SOCKET"


@pytest.mark.parametrize(
    ("method", "api_found", "used"),
    [("auto", True, "helm_chart"), ("auto", False, "helm"), ("helm", True, "helm"), ("helm_chart", True, "helm_chart")],
)
def test_methods(method: str, api_found: bool, used: str) -> None:
    found = plan(own={"method": method}, cluster={"helm_charts": {"api_found": api_found, "resources": []}})
    assert built(found).method == used


def test_helm_chart_needs_a_helm_controller() -> None:
    (problem,) = problems(
        plan(own={"method": "helm_chart"}, cluster={"helm_charts": {"api_found": False, "resources": []}})
    )
    assert problem.startswith("gpu_operator_method is helm_chart, but the cluster has no helm-controller")


@pytest.mark.parametrize(
    ("settings", "own", "host", "words"),
    [
        (
            {},
            {"mig_strategy": "single"},
            "b",
            "or use the strategy mixed (gpu_operator_mig_strategy is single)",
        ),
        (
            {},
            {"version": "v24.9.2"},
            "a",
            "gpu_operator_version: this version of the collection does not support gpu-operator v24.9.2",
        ),
        ({}, {"values": {"drivr": {}}}, "a", "gpu_operator_values has the unknown key drivr"),
        (
            {"role": "device_plugin"},
            {"values": {"migStrategi": 1}},
            "a",
            "device_plugin_values has the unknown key migStrategi",
        ),
        ({"role": "device_plugin", "owner": "operator"}, {}, "a", "has no MIG manager: use the role gpu_operator"),
        ({"role": "device_plugin", "selected": ["gpu_operator", "device_plugin"]}, {}, "a", "are both set"),
    ],
)
def test_variables_that_are_refused(settings: Data, own: Data, host: str, words: str) -> None:
    found = plan(own=own, **settings)
    assert found.plan is None
    assert [words in problem for problem in found.problems[host]] == [True]
    assert sum(map(len, found.problems.values())) == 1


def test_a_malformed_layout_is_reported_as_by_the_check_of_variables() -> None:
    layout = "[{devices: all}]"
    assert plan(A._replace(layout=layout)).problems["a"] == layout_problems.of_variable(layout)


def test_problems_of_the_layouts_are_found_without_a_cluster() -> None:
    found = plan(own={"mig_strategy": "single"}, cluster={"nodes": {"msg": "refused"}}, may_be_missing=True)
    assert [len(each) for each in found.problems.values()] == [0, 1]


def test_unused_instances_give_a_warning() -> None:
    assert len(plan(own={"mig_strategy": "none"}).warnings) == 2


@pytest.mark.parametrize("role", ["gpu_operator", "device_plugin"])
@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        ({"key": "sku", "value": "gpu", "effect": "NoSchedule"}, None, False),
        ({"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": "sku", "value": "gpu"}, True),
        ({"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": "sku", "value": "cpu"}, False),
        ({"key": "sku", "effect": "NoExecute"}, {"key": "sku", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "sku", "effect": "NoExecute"}, {"operator": "Exists"}, True),
        ({"key": "sku", "effect": "PreferNoSchedule"}, None, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, None, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "sku"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, None, True),
    ],
)
def test_taints_that_the_chart_does_not_tolerate(role: str, taint: Data, toleration: Data, tolerated: bool) -> None:
    tainted = node("a")
    tainted["spec"] = {"taints": [taint]}
    found = plan(
        A,
        role=role,
        own={"tolerations": [toleration] if toleration else []},
        cluster={"nodes": {"resources": [tainted]}},
    )
    expected = (
        "node a has the taint %s%s:%s, which pods of the chart do not tolerate: add a toleration to %s_tolerations, or "
        "to the tolerations in its values"
    )
    text = expected % (taint["key"], "=gpu" if "value" in taint else "", taint["effect"], role)
    granted = [each for each in found.warnings if "becomes privileged" in each]
    assert len(granted) == (role == "device_plugin")
    assert found.warnings == granted + ([] if tolerated else [text])


def test_pods_get_gpus_with_instances_without_cdi() -> None:
    assert built(plan(own={"mig_strategy": "none"})).chart_values["cdi"] == {"enabled": False}
    assert "cdi" not in built(plan()).chart_values


@pytest.mark.parametrize(
    ("message", "settings", "words"),
    [
        ("Connection refused", {}, "the cluster cannot be read: Connection refused. Check gpu_cluster_host"),
        (
            "Failed to import the required Python library (kubernetes) on host's Python x.",
            {},
            "the controller's Python lacks the library kubernetes",
        ),
        (
            "Exception '403 Reason: Forbidden HTTP response headers: x HTTP response body: "
            '{"kind":"Status","message":"nodes is forbidden: User cannot list","code":403}',
            {},
            "the cluster cannot be read: nodes is forbidden: User cannot list. Check",
        ),
        ("Connection refused", {"may_be_missing": True}, ""),
        ("Failed to import the required Python library (kubernetes) on h", {"on_controller": False}, ""),
        (
            "Failed to import the required Python library (kubernetes) on h",
            {"may_be_missing": True},
            "the controller's Python lacks the library kubernetes",
        ),
    ],
)
def test_a_cluster_that_cannot_be_read(message: str, settings: Data, words: str) -> None:
    found = plan(cluster={"nodes": {"msg": message, "failed": False}}, **settings)
    assert found.plan is None
    assert found.missing is (words == "")
    assert bool(found.warnings) is found.missing
    assert [problem.startswith(words) for problem in found.problems["a"]] == ([True] if words else [])


def test_a_host_that_is_no_node() -> None:
    found = plan(A, Host("c", gpus=[gpu(0)]))
    assert found.problems["a"] == []
    assert found.problems["c"][0].startswith("the cluster has no node named c")


def test_a_host_that_joins_a_cluster_in_the_same_run() -> None:
    found = plan(A, Host("c", gpus=[gpu(0)]), may_be_missing=True)
    (warning,) = found.warnings
    assert warning.startswith("c: the cluster has no node named c") and warning.endswith(", unless this run adds it")
    assert list(built(found).expected) == ["a"]


@pytest.mark.parametrize(
    ("field", "kind"), [("daemonsets", "DaemonSet"), ("policies", "ClusterPolicy"), ("helm_charts", "HelmChart")]
)
def test_objects_that_cannot_be_read_are_not_taken_for_none(field: str, kind: str) -> None:
    denied = ApiException(status=403, reason="Forbidden")
    denied.body = json.dumps({"message": 'User "x" cannot list', "code": 403}, separators=(",", ":")).encode()
    (problem,) = problems(plan(cluster={field: {"msg": str(denied), "failed": False}}))
    assert problem == 'the cluster\'s objects of the kind %s cannot be read: User "x" cannot list' % kind


def review(verb: str, resource: str, allowed: t.Optional[bool]) -> Data:
    status = {} if allowed is None else {"allowed": allowed}
    return {"result": {"spec": {"resourceAttributes": {"verb": verb, "resource": resource}}, "status": status}}


def test_missing_permissions() -> None:
    reviews = {"results": [review("create", "namespaces", False), review("patch", "nodes", True)]}
    (problem,) = problems(plan(cluster={"reviews": reviews}))
    assert problem.startswith("the user of the kubeconfig is not allowed to create namespaces: use one with")
    (problem,) = problems(plan(cluster={"reviews": reviews, "helm_charts": {"resources": [], "api_found": True}}))
    assert problem.endswith("bind the ClusterRoles of the collection, which docs/security.md describes")


@pytest.mark.parametrize(
    ("reviews", "reason"),
    [
        (
            {"results": [review("patch", "nodes", None), review("get", "nodes", True)]},
            "the API did not evaluate patch nodes",
        ),
        ({"msg": "Forbidden"}, "Forbidden"),
    ],
)
def test_permissions_that_cannot_be_checked_are_a_warning(reviews: Data, reason: str) -> None:
    found = plan(cluster={"reviews": reviews})
    assert built(found)
    assert found.warnings == [
        "the permissions of the user of the kubeconfig could not be checked, and a run fails where one is missing: "
        + reason
    ]


def test_what_verify_reports() -> None:
    """Without permissions to write."""
    name = built(configured()).expected["a"].config
    missing = [
        "Namespace gpu-operator (gpu_operator_namespace_privileged)",
        "ConfigMap gpufleet-mig-configs (nvidia_mig_layout)",
        "node labels of the MIG manager (nvidia_mig_owner, nvidia_mig_layout)",
    ]
    assert built(configured()).outdated == missing
    assert str(built(configured()).helm_chart) == "HelmChart gpu-operator (gpu_operator_*)"
    labels = {"labels": {"pod-security.kubernetes.io/enforce": "privileged", "other": "x"}}
    namespace = {"resources": [{"metadata": {"name": "gpu-operator", **labels}}]}
    (config_map,) = written(configured(), "ConfigMap")
    given: Data = {"nodes": {"resources": [node("a", **{LABEL: name, STATE: "success"})]}, "namespace": namespace}
    given["config_map"] = {"resources": [config_map]}
    assert built(plan(A, owner="operator", cluster=given)).outdated == []


def test_the_objects_of_a_plan_are_recognized_when_they_are_removed() -> None:
    shared = A._replace(sharing={"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.10gb", "replicas": 2}]}})
    found = built(plan(shared, role="device_plugin"))
    written_objects = [*found.objects, found.helm_chart]
    kinds = [each.definition["kind"] for each in written_objects]
    assert kinds == ["Namespace", "RuntimeClass", "ConfigMap", "HelmChart"]
    assert all(is_ours(each.definition) for each in written_objects)


@pytest.mark.parametrize("privileged", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_a_namespace_that_exists_keeps_its_owner(exists: bool, privileged: bool) -> None:
    existing = {"resources": [{"metadata": {"name": "gpu-operator"}}] if exists else []}
    found = plan(A, owner="operator", own={"namespace_privileged": privileged}, cluster={"namespace": existing})
    (namespace,) = written(found, "Namespace")
    own = {} if exists else {"app.kubernetes.io/managed-by": "gpufleet.node"}
    assert namespace["metadata"] == {
        "name": "gpu-operator",
        "labels": {**own, **({"pod-security.kubernetes.io/enforce": "privileged"} if privileged else {})},
    }
    (written_namespace, _config_map) = built(found).objects
    assert written_namespace.is_current is not (privileged or not exists)
    # Check mode does not create the namespace of the ConfigMap.
    assert [each.in_check_mode for each in built(found).objects] == [True, exists]


def test_other_owners_are_found() -> None:
    standalone = daemonset("other", **{"app.kubernetes.io/name": "nvidia-device-plugin"})
    paused = node("a", **{"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"})
    found = plan(A, cluster={"nodes": {"resources": [paused]}, "daemonsets": {"resources": [standalone]}})
    assert len(problems(found)) == 2


def configured(owner: str = "operator", drain: bool = False, gpus: int = 0, record: str = "", **labels: str) -> Planned:
    existing = {"resources": [], "api_found": True}
    item = node("a", {"nvidia.com/gpu": str(gpus)}, **labels)
    item["metadata"]["annotations"] = {drain_record.RECORD: record} if record else {}
    return plan(A, owner=owner, drain=drain, cluster={"nodes": {"resources": [item]}, "config_map": existing})


def test_the_operator_gets_config_map_and_label() -> None:
    found = configured()
    name = built(found).expected["a"].config
    assert built(found).labels == [{"node": "a", "labels": {LABEL: name, STATE: None}}]
    (config_map,) = written(found, "ConfigMap")
    assert config_map["metadata"]["name"] == built(found).chart_values["migManager"]["config"]["name"]
    assert list(yaml.safe_load(config_map["data"]["config.yaml"])["mig-configs"]) == [name]
    assert built(found).expected["a"].config == name
    assert built(found).chart_values["migManager"]["enabled"] is True
    assert built(found).retry == []
    again = configured(**{LABEL: name, STATE: "success"})
    assert built(again).labels == [] and written(again, "ConfigMap") == [config_map]
    assert config_map["metadata"]["resourceVersion"] == ""
    existing = {"metadata": {"resourceVersion": "7"}, "data": {"config.yaml": "mig-configs: {of-another-run: []}"}}
    (changed,) = written(plan(A, owner="operator", cluster={"config_map": {"resources": [existing]}}), "ConfigMap")
    assert changed["metadata"]["resourceVersion"] == "7" and "of-another-run" in changed["data"]["config.yaml"]
    existing["data"]["config.yaml"] = "mig-configs: ["
    damaged = plan(A, owner="operator", cluster={"config_map": {"resources": [existing]}})
    (problem,) = problems(damaged)
    assert problem.startswith("namespace gpu-operator: the ConfigMap gpufleet-mig-configs, which has")
    failed = configured(**{LABEL: name, STATE: "failed"})
    assert built(failed).retry == ["a"] and built(failed).labels == []


def test_configurations_of_nodes_outside_the_play_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with --limit: the labels of all nodes of the cluster count."""
    nodes = {"resources": [node("a"), node("z", **{LABEL: "of-z"})]}
    existing = {"metadata": {}, "data": {"config.yaml": "mig-configs: {of-z: [], unused: []}"}}
    cluster = {"nodes": nodes, "config_map": {"resources": [existing]}}
    (before,) = written(plan(A, owner="operator", cluster=cluster), "ConfigMap")
    monkeypatch.setattr(mig_configs, "_LIMIT", len(before["data"]["config.yaml"]) - 1)
    (after,) = written(plan(A, owner="operator", cluster=cluster), "ConfigMap")
    found = [set(yaml.safe_load(each["data"]["config.yaml"])["mig-configs"]) for each in (before, after)]
    assert found[0] - found[1] == {"unused"} and "of-z" in found[1]


@pytest.mark.parametrize(
    ("labels", "record", "labelled", "retried"),
    [
        ({LABEL: "all-1g.10gb", STATE: "success"}, "", True, False),
        ({LABEL: "all-1g.10gb", STATE: "success"}, RECORD, True, False),
        ({LABEL: "this", STATE: "failed"}, "", False, True),
        ({LABEL: "this", STATE: "success"}, RECORD, False, False),
    ],
)
def test_drained_nodes_are_labelled_later(labels: Data, record: str, labelled: bool, retried: bool) -> None:
    name = built(configured()).expected["a"].config
    labels = {**labels, LABEL: name if labels[LABEL] == "this" else labels[LABEL]}
    found = built(configured(drain=True, gpus=7, record=record, **labels)).serialized()
    assert (found["expected"], found["labels"], found["retry"]) == ({}, [], [])
    unapplied = ["its MIG layout or sharing of GPUs has not been applied: run site.yml or managed_cluster.yml"]
    left = {"metadata": {"name": "a", "annotations": {drain_record.RECORD: record} if record else {}}}
    assert found["while_drained"] == {
        "a": {
            "labels": [{"node": "a", "labels": {LABEL: name, STATE: None}}] if labelled else [],
            "retry": ["a"] if retried else [],
            "plugin_labels": [],
            "differences": drain_record.interrupted(left) + (unapplied if labelled or retried else []),
            "expected": {"a": {"resources": {"nvidia.com/mig-1g.10gb": 7}, **OWNED_BY_HOST, "config": name}},
        }
    }


def test_the_mig_manager_of_a_new_node_starts_when_the_node_is_drained() -> None:
    """The label must exist before the chart, whose operator would label the node itself."""
    manager = "nvidia.com/gpu.deploy.mig-manager"
    found = built(configured(drain=True)).serialized()
    name = found["while_drained"]["a"]["expected"]["a"]["config"]
    (first,), (second,) = found["labels"], found["while_drained"]["a"]["labels"]
    assert first["labels"] == {LABEL: name, STATE: None, manager: "gpufleet-drain-first"}
    assert second["labels"] == {manager: "true"}
    interrupted = {LABEL: name, manager: "gpufleet-drain-first"}
    again = built(configured(drain=True, **interrupted)).serialized()
    assert again["labels"] == [] and again["while_drained"]["a"]["labels"] == [second]
    assert built(configured(**interrupted)).labels == [second]
    removed = built(configured("host", **interrupted)).removed[0]["labels"]
    assert removed == {LABEL: None, STATE: None, manager: None}
    assert built(configured(drain=True, gpus=7, **{LABEL: name, STATE: "success"})).while_drained == {}


@pytest.mark.parametrize("drain", [False, True])
def test_a_node_that_a_run_left_out_of_service(drain: bool) -> None:
    left = node("a")
    left["metadata"]["annotations"] = {drain_record.RECORD: RECORD}
    found = plan(A, drain=drain, cluster={"nodes": {"resources": [left]}}).problems["a"]
    assert [problem.startswith("its node a is out of service for a run") for problem in found] == [True] * (not drain)


def test_the_operator_needs_a_layout_for_each_host() -> None:
    (problem,) = problems(plan(A, B._replace(layout=None), owner="operator"))
    assert problem.startswith("nvidia_mig_owner is operator, but the host has no nvidia_mig_layout")
    assert plan(A._replace(layout=None)).problems["a"] == []
    incapable = Host("b", gpus=[gpu(0, current=None)])
    assert plan(A, incapable, owner="operator").problems["b"] == []


def test_labels_of_the_operator_are_removed_if_the_host_owns_mig() -> None:
    found = configured("host", **{LABEL: "all-disabled", STATE: "success"})
    assert built(found).labels == []  # before the chart
    assert built(found).removed == [{"node": "a", "labels": {LABEL: None, STATE: None}}]
    assert written(found, "ConfigMap") == []
    assert built(found).expected["a"].config == ""


@pytest.mark.parametrize(("state", "refused"), [("pending", True), ("rebooting", True), ("success", False)])
def test_another_configuration_is_not_interrupted(state: str, refused: bool) -> None:
    found = configured(**{LABEL: "all-1g.10gb", STATE: state})
    assert bool(found.problems["a"]) is refused
    name = built(configured()).expected["a"].config
    assert configured(**{LABEL: name, STATE: state}).problems["a"] == []


def test_old_device_plugins_are_restarted() -> None:
    pods = [pod("old", "a", started="2026-11-23T06:00:00Z")]
    found = plan(A._replace(mig_changed=1795413700.0), cluster={"plugins": {"resources": pods}})
    assert [each["name"] for each in built(found).stale] == ["old"]


def test_the_runtime_class_of_the_variable_is_read() -> None:
    own = {**PLUGIN, "runtime_class": "other"}
    assert inputs.objects_to_read(Installation(DEVICE_PLUGIN, own))["runtime_class"]["name"] == "other"
    assert inputs.objects_to_read(Installation(GPU_OPERATOR, OWN))["runtime_class"]["name"] == "nvidia"


@pytest.mark.parametrize(
    ("existing", "created"),
    [
        ([], "nvidia"),
        ([{"metadata": {"name": "nvidia"}}], ""),
        ([daemonset("nvidia", **{"app.kubernetes.io/managed-by": "gpufleet.node"})], "nvidia"),
    ],
)
def test_the_runtime_class_is_created_only_if_nobody_has_it(existing: t.Any, created: str) -> None:
    found = plan(A, role="device_plugin", cluster={"runtime_class": {"resources": existing}})
    assert [each["handler"] for each in written(found, "RuntimeClass")] == ([created] if created else [])
    assert built(found).expected["a"].validator is False


@pytest.mark.parametrize(("version", "warned"), [("v1.35.7+rke2r1", False), ("v1.31.0", True), ("v1.37.0", True)])
def test_versions_of_kubernetes_that_nvidia_does_not_document(version: str, warned: bool) -> None:
    found = node("a")
    found["status"]["nodeInfo"]["kubeletVersion"] = version
    planned = plan(A, cluster={"nodes": {"resources": [found]}})
    assert [version in warning for warning in planned.warnings] == ([True] if warned else [])
