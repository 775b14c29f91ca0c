# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import pod_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import operands
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, plugin, user

Data = t.Dict[str, t.Any]
DEPLOY = "nvidia.com/gpu.deploy."
MIG_MANAGER = {"app": "nvidia-mig-manager"}
MANIFEST = {"name": "nvidia-device-plugin-ds"}  # pods of the static manifest, which has no chart


def test_the_operands_that_are_paused() -> None:
    """Any DaemonSet can select nodes by the labels of the operator, such as that of clients."""
    now = node("a", **{DEPLOY + "device-plugin": "paused-for-mig-change", DEPLOY + "dcgm": "false"})
    client = user("client", owner="DaemonSet", nodeSelector={DEPLOY + "device-plugin": "true"})
    other = user("other", owner="DaemonSet", nodeSelector={DEPLOY + "dcgm": "false"})
    assert operands.pods_of_paused(now, [client, other, user("web")]) == [pod_of(client)]


@pytest.mark.parametrize("standalone", [{"app.kubernetes.io/name": "nvidia-device-plugin"}, MANIFEST])
def test_a_node_is_ready_with_its_resources_and_a_new_device_plugin(standalone: t.Dict[str, str]) -> None:
    ready = node("a", {"nvidia.com/gpu": "7"})
    wanted, operator = {"nvidia.com/gpu": 7}, {"device-plugin"}
    assert operands.unready(ready, [plugin("new")], wanted, [], operator) == []
    assert operands.unready(ready, [], wanted, [], operator) == ["a: the device plugin is not ready"]
    assert operands.unready(ready, [plugin("new")], {"nvidia.com/gpu": 2}, [], operator) != []
    old, new = plugin("old", **standalone), plugin("new", **standalone)
    plain = node("a", {"nvidia.com/gpu": "7"})
    assert operands.outdated_pods(plain, [old, user("web")]) == [old]
    gfd = plugin("nvidia-device-plugin-gpu-feature-discovery-x", **{"app.kubernetes.io/name": "nvidia-device-plugin"})
    assert operands.unready(plain, [old, gfd], wanted, [old], ()) == ["a: the device plugin is not ready"]
    assert operands.unready(plain, [old, new], wanted, [old], ()) == []


def test_the_validator_of_the_operator_must_be_ready_again() -> None:
    labelled = node("a", {"nvidia.com/gpu": "7"}, **{DEPLOY + "operator-validator": "true"})
    validator = plugin("v", app="nvidia-operator-validator")
    assert operands.outdated_pods(labelled, [validator]) == [validator]
    components = operands.deployed_components(labelled, [daemonset("operator-validator")])
    assert operands.unready(labelled, [validator], None, [], components) == []
    message = ["a: nvidia-operator-validator is not ready"]
    assert operands.unready(labelled, [validator], None, [validator], components) == message


def daemonset(component: str) -> Data:
    return {"spec": {"template": {"spec": {"nodeSelector": {DEPLOY + component: "true"}}}}}


def test_labels_that_an_uninstalled_operator_left_prove_nothing() -> None:
    labels = {DEPLOY + "operator-validator": "true", DEPLOY + "device-plugin": "true", DEPLOY + "dcgm": "false"}
    left = node("a", {"nvidia.com/gpu": "7"}, **labels)
    others = [daemonset("device-plugin"), daemonset("dcgm"), {"spec": {"template": {"spec": {}}}}]
    assert operands.deployed_components(left, []) == set()
    assert operands.deployed_components(left, others) == {"device-plugin"}


def test_the_strategy_of_a_node() -> None:
    assert operands.plugin_strategy(node("a", **{"nvidia.com/mig.strategy": "mixed"})) == "mixed"
    assert operands.plugin_strategy(node("a", **{"nvidia.com/gpu.product": "x"})) == "none"
    assert operands.plugin_strategy(node("a")) == ""


@pytest.mark.parametrize(
    ("labels", "container", "strategy"),
    [
        (MANIFEST, {}, "none"),
        (MANIFEST, {"command": ["nvidia-device-plugin", "--mig-strategy=mixed"]}, "mixed"),
        (
            MANIFEST,
            {"args": ["--fail-on-init-error=false"], "env": [{"name": "MIG_STRATEGY", "value": "single"}]},
            "single",
        ),
        ({"app": "nvidia-device-plugin-daemonset"}, {"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}, "mixed"),
        (MANIFEST, {"env": [{"name": "MIG_STRATEGY", "value": "single"}, {"name": "CONFIG_FILE", "value": "x"}]}, ""),
        (MANIFEST, {"args": ["--config-file=/config"]}, ""),
        ({"app": "web"}, {"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}, ""),
    ],
)
def test_the_strategy_of_a_node_without_feature_discovery(
    labels: t.Dict[str, str], container: Data, strategy: str
) -> None:
    found = plugin("plugin", **labels)
    found["spec"]["containers"][0].update(container)
    assert operands.plugin_strategy(node("a"), [found]) == strategy


def test_the_mig_manager_applies_its_configuration_again_after_other_changes() -> None:
    """A reboot destroys instances, and the state of the configuration would remain success."""
    manager = plugin("m", **MIG_MANAGER)
    assert operands.outdated_pods(node("a"), [manager]) == [manager]
    applying = node("a", **{"nvidia.com/mig.config.state": "pending"})
    assert operands.outdated_pods(applying, [manager]) == []
    state = {"nvidia.com/mig.config.state": None}
    assert operands.state_removal([manager]) == {"metadata": {"labels": state}} and operands.state_removal([]) == {}
    labels = {"nvidia.com/mig.config": "x"}
    new = [plugin("new", **MIG_MANAGER)]
    assert operands.unready(node("a", **labels), new, None, [manager], ()) == ["a: MIG configuration not applied yet"]
    labels["nvidia.com/mig.config.state"] = "success"
    assert operands.unready(node("a", **labels), new, None, [manager], ()) == []


@pytest.mark.parametrize(
    ("by_operator", "uses_dra", "groups"),
    [
        (False, False, [operands.OPERANDS]),
        (True, False, [()]),  # the MIG manager pauses and restarts the components
        (False, True, [operands.OPERANDS, ("dra-driver",)]),
    ],
)
def test_the_order_of_the_pause(by_operator: bool, uses_dra: bool, groups: t.List[t.Sequence[str]]) -> None:
    assert operands.components_to_pause(by_operator, uses_dra) == groups


SEVEN = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
HOST = Host("a", gpus=[gpu(0)], layout=SEVEN)


@pytest.mark.parametrize(
    ("strategy", "labels", "applied", "resources"),
    [
        ("single", {}, True, {"nvidia.com/gpu": 7}),
        ("mixed", {}, True, {"nvidia.com/mig-1g.10gb": 7}),
        ("mixed", {}, False, None),  # a later task changes the layout
        ("", {}, True, None),
        (
            "single",
            {mig_configs.LABEL: mig_configs.config_name(mig_configs.layout_entries(HOST))},
            False,
            {"nvidia.com/gpu": 7},
        ),
        ("single", {mig_configs.LABEL: "other"}, True, None),
        ("single", {"nvidia.com/device-plugin.config": "other"}, True, None),  # it may share the GPUs
    ],
)
def test_what_a_node_should_advertise(
    strategy: str, labels: t.Dict[str, str], applied: bool, resources: t.Optional[Data]
) -> None:
    shown = node("a", **{**labels, **({"nvidia.com/mig.strategy": strategy} if strategy else {})})
    assert operands.expectation(HOST, shown, [], applied) == operands.Expectation(resources)


@pytest.mark.parametrize(
    ("host", "strategy", "resources", "plugins", "unknown"),
    [
        (HOST, "", {"nvidia.com/gpu": "7"}, [], "the MIG strategy of its device plugin is unknown"),
        (HOST, "", {}, [plugin("x")], "the MIG strategy of its device plugin is unknown"),
        (HOST, "", {}, [], ""),  # no device plugin
        (HOST._replace(gpus=None), "mixed", {}, [], "the GPUs of the host are unknown"),
        (HOST._replace(gpus=[]), "mixed", {}, [], ""),
    ],
)
def test_what_a_node_should_advertise_may_be_unknown(
    host: Host, strategy: str, resources: Data, plugins: t.List[Data], unknown: str
) -> None:
    for each in plugins:
        each["spec"]["containers"][0]["env"] = [{"name": "CONFIG_FILE", "value": "/config.yaml"}]
    shown = node("a", resources, **({"nvidia.com/mig.strategy": strategy} if strategy else {}))
    assert operands.expectation(host, shown, plugins, True).unknown == unknown


def test_a_strategy_that_does_not_support_the_layout() -> None:
    two = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 1}}]
    shown = node("a", **{"nvidia.com/mig.strategy": "single"})
    found = operands.expectation(HOST._replace(layout=two), shown, [], True)
    assert found.resources is None and found.unsupported.startswith("single: ")
