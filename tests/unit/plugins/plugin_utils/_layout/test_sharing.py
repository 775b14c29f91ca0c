# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sharing of GPUs: the variable, its effect on resources, and the configurations of the device plugin."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import releases
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs, plugin_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import sharing as layout_sharing
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import (
    RECORD,
    SEVEN,
    built,
    plan,
    problems,
    written,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, pod

Data = t.Dict[str, t.Any]
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
OFF = [{"devices": "all", "mig_enabled": False}]
LABEL = plugin_configs.LABEL


def slices(name: str = MIG, count: object = 4, **options: object) -> Data:
    return {"timeSlicing": {"resources": [{"name": name, "replicas": count}], **options}}


def mps(count: int = 4) -> Data:
    return {"mps": {"resources": [{"name": GPU, "replicas": count}]}}


def host(sharing: object, layout: object = None, name: str = "a") -> Host:
    return Host(name, gpus=[gpu(0)], layout=layout or SEVEN, sharing=sharing)


@pytest.mark.parametrize("nothing", [None, {}])
def test_gpus_are_not_shared_by_default(nothing: object) -> None:
    assert layout_sharing.parse(nothing) is None
    assert cluster_nodes.expected_resources(host(nothing), "mixed") == {MIG: 7}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("timeSlicing", 'gpu_cluster_sharing is "timeSlicing": give a mapping'),
        ({"time_slicing": {}}, "gpu_cluster_sharing has the unknown key time_slicing (did you mean timeSlicing?)"),
        ({**slices(), **mps()}, "has timeSlicing and mps, which the device plugin cannot combine"),
        ({"timeSlicing": {}}, "gpu_cluster_sharing.timeSlicing.resources is null: list resources"),
        ({"timeSlicing": None}, "gpu_cluster_sharing.timeSlicing is null: give a mapping"),
        (slices(rename=True), "gpu_cluster_sharing.timeSlicing has the unknown key rename"),
        (slices(renameByDefault="yes"), 'renameByDefault is "yes": give true or false'),
        (slices(count=1), "gpu_cluster_sharing.timeSlicing.resources[0].replicas is 1: give a number from 2 to 1000"),
        (slices(count="4"), 'replicas is "4": give a number'),
        (slices(count=True), "replicas is true: give a number"),
        (mps(49), "replicas is 49: give a number from 2 to 48"),
        (slices("gpu"), 'resources[0].name is "gpu": give a resource such as nvidia.com/gpu'),
        ({"timeSlicing": {"resources": [{"replicas": 2}]}}, "resources[0].name is null: give a resource such as"),
        ({"timeSlicing": {"resources": [{"name": GPU, "devices": 1}]}}, "resources[0] has the unknown key devices"),
        ({"timeSlicing": {"resources": slices()["timeSlicing"]["resources"] * 2}}, "has %s twice" % MIG),
    ],
)
def test_values_that_are_refused(value: object, words: str) -> None:
    with pytest.raises(layout_sharing.Unshareable) as caught:
        layout_sharing.parse(value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sharing", "layout", "strategy", "advertised"),
    [
        (slices(), SEVEN, "mixed", {MIG: 28}),
        (slices(renameByDefault=True), SEVEN, "mixed", {MIG + ".shared": 28}),
        (slices(GPU), SEVEN, "single", {GPU: 28}),  # MIG devices
        (slices(GPU), SEVEN, "none", {GPU: 4}),
        (slices(GPU, renameByDefault=True), OFF, "mixed", {GPU + ".shared": 4}),
        (mps(), OFF, "single", {GPU: 4}),
        (mps(), OFF, "none", {GPU: 4}),
    ],
)
def test_what_a_node_advertises(sharing: Data, layout: object, strategy: str, advertised: Data) -> None:
    assert cluster_nodes.expected_resources(host(sharing, layout), strategy) == advertised
    assert set(layout_sharing.replicas(layout_sharing.parse(sharing))) == set(advertised)


def test_resources_that_are_not_named_are_not_shared() -> None:
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 4}}]
    assert cluster_nodes.expected_resources(host(slices(), layout), "mixed") == {MIG: 16, "nvidia.com/mig-3g.40gb": 1}


@pytest.mark.parametrize(
    ("sharing", "layout", "strategy", "words"),
    [
        (mps(), SEVEN, "single", "NVIDIA does not support MPS on nodes with MIG devices"),
        (mps(), SEVEN, "none", "NVIDIA does not support MPS on nodes with MIG devices"),
        (mps(), OFF, "mixed", "with the MIG strategy mixed, the device plugin exits"),
    ],
)
def test_what_a_node_does_not_support(sharing: Data, layout: object, strategy: str, words: str) -> None:
    (problem,) = problems(plan(host(sharing, layout), own={"mig_strategy": strategy}))
    assert problem.startswith("gpu_cluster_sharing") and words in problem


def test_resources_that_the_node_does_not_have_are_a_warning() -> None:
    """The device plugin ignores them, so that nodes with different layouts can have one configuration."""
    value = slices()
    value["timeSlicing"]["resources"].append({"name": "nvidia.com/mig-2g.20gb", "replicas": 2})
    found = plan(host(value))
    assert found.warnings == [
        "a: gpu_cluster_sharing shares nvidia.com/mig-2g.20gb, which the node does not advertise: it has " + MIG
    ]
    assert built(found).expected["a"].resources == {MIG: 28}
    assert built(found).expected["a"].replicas == {MIG: 4}


def shared(*hosts: Host, drain: bool = False, **nodes: Data) -> Planned:
    cluster = {"nodes": {"resources": list(nodes.values())}}
    return plan(*hosts, drain=drain, cluster=cluster)


def test_config_map_label_and_chart() -> None:
    planned = shared(host(slices()), host({}, name="b"), a=node("a"), b=node("b"))
    (config_map,), found = written(planned, "ConfigMap"), built(planned).serialized()
    (change,) = found["plugin_labels"]
    assert change == {"node": "a", "labels": {LABEL: mig_configs.config_name(slices())}}
    texts = {key: yaml.safe_load(text) for key, text in config_map["data"].items()}
    assert texts == {"default": {"version": "v1"}, change["labels"][LABEL]: {"version": "v1", "sharing": slices()}}
    values = {"name": config_map["metadata"]["name"], "default": "default"}
    assert releases.value_at(found["chart_values"], "devicePlugin.config") == values
    assert found["expected"]["a"]["replicas"] == {MIG: 4}
    plugin = plan(host(slices()), role="device_plugin")
    (other,) = written(plugin, "ConfigMap")
    assert built(plugin).chart_values["config"] == values and other["data"] == config_map["data"]


def test_a_value_of_ansibles_own_type() -> None:
    class Tagged(dict):  # type: ignore[type-arg]
        """As ansible-core 2.19 marks variables."""

    value = Tagged(timeSlicing=Tagged(slices()["timeSlicing"]))
    assert written(plan(host(value)), "ConfigMap") == written(plan(host(slices())), "ConfigMap") != []


def test_a_second_run_changes_nothing_and_the_end_of_sharing_removes_the_label() -> None:
    labelled = node("a", **{LABEL: mig_configs.config_name(slices())})
    assert built(shared(host(slices()), a=labelled)).plugin_labels == []
    ended = shared(host({}), a=labelled)
    assert built(ended).plugin_labels == [{"node": "a", "labels": {LABEL: None}}]
    assert written(ended, "ConfigMap") == [] and "devicePlugin" not in built(ended).chart_values


@pytest.mark.parametrize("role", ["gpu_operator", "device_plugin"])
def test_the_end_of_sharing_does_not_restart_the_device_plugins(role: str) -> None:
    """They would not share the GPUs any more before the nodes are drained."""
    labelled = node("a", {MIG: "28"}, **{LABEL: mig_configs.config_name(slices())})
    shares = {
        "nodes": {"resources": [labelled]},
        "plugin_config_map": {"resources": [{"metadata": {}, "data": {"default": ""}}]},
    }
    before = plan(host(slices()), role=role, drain=True, cluster=shares)
    ended = plan(host({}), role=role, drain=True, cluster=shares)
    assert built(ended).chart_values == built(before).chart_values and written(ended, "ConfigMap") == []
    assert built(ended).while_drained["a"].plugin_labels == [{"node": "a", "labels": {LABEL: None}}]
    own = {
        "values": {"config": {"name": "mine"}}
        if role == "device_plugin"
        else {"devicePlugin": {"config": {"name": "mine"}}}
    }
    assert not plan(host({}), role=role, own=own, cluster=shares).problems["a"]


def test_configurations_are_kept_because_other_nodes_may_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    other = node("z", **{LABEL: "gpufleet-other"})
    former = {"gpufleet-other": "kept", "gpufleet-unused": "kept"}  # a run may be about to label a node with the second
    existing = {"resources": [{"metadata": {}, "data": former}]}
    cluster = {"nodes": {"resources": [node("a"), other]}, "plugin_config_map": existing}
    found = plan(host({}), cluster=cluster)
    (config_map,) = written(found, "ConfigMap")
    assert config_map["data"] == {"default": "version: v1\n", **former}
    assert releases.value_at(built(found).chart_values, "devicePlugin.config.name") == plugin_configs.CONFIG_MAP
    monkeypatch.setattr(mig_configs, "_LIMIT", 19)
    (config_map,) = written(plan(host({}), cluster=cluster), "ConfigMap")
    assert config_map["data"] == {"default": "version: v1\n", "gpufleet-other": "kept", "gpufleet-unused": None}
    (problem,) = problems(plan(host(slices()), cluster=cluster))
    assert problem.startswith("namespace gpu-operator: the ConfigMap gpufleet-device-plugin-configs would exceed")


def test_the_label_of_another_owner_is_not_replaced() -> None:
    foreign = node("a", **{LABEL: "any"})
    (problem,) = problems(shared(host(slices()), a=foreign))
    assert problem.startswith("node a has the label %s=any, which someone else set" % LABEL)
    assert built(shared(host({}), a=foreign)).plugin_labels == []


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("gpu_operator", {"devicePlugin": {"config": {"name": "mine"}}}),
        ("gpu_operator", {"devicePlugin": {"config": {"create": True, "data": {"a": ""}}}}),
        ("device_plugin", {"config": {"map": {"a": ""}}}),
        ("device_plugin", {"config": None}),
    ],
)
def test_chart_values_that_replace_the_configurations(role: str, values: Data) -> None:
    assert any(
        "set only one of them" in each for each in problems(plan(host(slices()), role=role, own={"values": values}))
    )
    assert not plan(host({}), role=role, own={"values": values}).problems["a"]


def test_mps_needs_gpu_feature_discovery() -> None:
    own = {"mig_strategy": "single", "gfd": False}
    (problem,) = problems(plan(host(mps(), OFF), role="device_plugin", own=own))
    assert problem.startswith("gpu_cluster_sharing.mps needs GPU feature discovery")
    assert not plan(host(slices(GPU), OFF), role="device_plugin", own=own).problems["a"]


@pytest.mark.parametrize(
    ("gpus", "record", "sharing", "later"),
    [
        (0, "", slices(), False),  # no pods use GPUs
        (7, "", slices(), True),
        (7, "", {}, False),
        (7, RECORD, {}, True),  # an interrupted run has drained it
    ],
)
def test_a_node_in_use_is_drained_before_its_sharing_changes(
    gpus: int, record: str, sharing: Data, later: bool
) -> None:
    item = node("a", {MIG: str(gpus)})
    item["metadata"]["annotations"] = {"gpufleet.node/out-of-service": record} if record else {}
    found = built(shared(host(sharing), drain=True, a=item)).serialized()
    labels = [{"node": "a", "labels": {LABEL: mig_configs.config_name(sharing)}}] if sharing else []
    assert found["plugin_labels"] == ([] if later else labels)
    assert ("a" in found["expected"]) is not later
    if later:
        change = found["while_drained"]["a"]
        assert (change["labels"], change["retry"], change["plugin_labels"]) == ([], [], labels)


@pytest.mark.parametrize(
    ("label", "resources"),
    [(None, {MIG: 7}), (mig_configs.config_name(slices()), {MIG: 28}), ("any", None)],
)
def test_the_sharing_in_effect(label: str | None, resources: Data | None) -> None:
    current = plugin_configs.host_as_shared(host(slices()), node("a", **({LABEL: label} if label else {})))
    assert (current and cluster_nodes.expected_resources(current, "mixed")) == resources


@pytest.mark.parametrize(("config_map", "known"), [(plugin_configs.CONFIG_MAP, True), ("theirs", False), (None, True)])
def test_the_default_configuration_of_someone_else_may_share_gpus(config_map: str | None, known: bool) -> None:
    plugin = pod("plugin")
    if config_map is not None:
        variables = [{"name": "NODE_NAME", "valueFrom": {}}, {"name": "NODE_LABEL", "value": LABEL}]
        plugin["spec"]["initContainers"] = [{"name": "init"}, {"name": "config-manager-init", "env": variables}]
        plugin["spec"]["volumes"] = [{"name": "run", "hostPath": {}}, {"name": "a", "configMap": {"name": config_map}}]
    found = plugin_configs.host_as_shared(host({}), node("a"), [plugin])
    assert (found is not None) is known


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("gpu_operator", {"devicePlugin": {"config": {"name": "theirs", "default": "any"}}}),
        ("device_plugin", {"config": {"map": {"default": "version: v1"}}}),
    ],
)
def test_resources_are_not_compared_if_chart_values_may_share_gpus(role: str, values: Data) -> None:
    found = plan(host({}), role=role, own={"values": values})
    assert built(found).expected["a"].resources is None
    assert [warning for warning in found.warnings if "config may share GPUs" in warning]
