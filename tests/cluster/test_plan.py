# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of sharing, and of the owner of MIG, whatever interrupts them: the same run completes them, or their opposite.

Models stand in for the operator's device plugin and MIG manager. The plans are those of the role gpu_operator.
"""

from __future__ import annotations

import json
import time
import typing as t
from collections import Counter
from pathlib import Path

import pytest
from conftest import DEPLOY, PLUGIN, RECORD, SETTLED, UNSIMULATED, Cluster, is_ready, with_pods
from fake_device_plugin import MIXED, SEVEN, Model, facts

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import plan as charts_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import GPU_OPERATOR
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Cluster as Objects
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import variables

Data = t.Dict[str, t.Any]
CONFIG, STATE, DEFAULT = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/device-plugin.config"
MANAGER = "nvidia-mig-manager"
DEPLOYED = DEPLOY + "mig-manager"
PAUSED = "paused-for-mig-change"  # as the MIG manager writes it
OWN = variables("gpu_operator", version="v26.7.0", method="helm")


class State(t.NamedTuple):
    """What a run should reach."""

    owner: str = "host"
    devices: t.Mapping[str, int] = SEVEN
    replicas: int = 1

    def offers(self) -> t.Dict[str, str]:
        return {"nvidia.com/mig-" + name: str(count * self.replicas) for name, count in self.devices.items()}

    def variables(self, node: str, gpus: object) -> Data:
        out: Data = {
            "gpu_cluster_node_name": node,
            "ansible_facts": {"nvidia": {"gpus": gpus}},
            "nvidia_mig_layout": [{"devices": "all", "mig_enabled": True, "mig_devices": dict(self.devices)}],
        }
        if self.replicas > 1:
            resources = [{"name": "nvidia.com/mig-" + name, "replicas": self.replicas} for name in self.devices]
            out["gpu_cluster_sharing"] = {"timeSlicing": {"resources": resources}}
        return out


class Operator(Model):
    """The GPU operator's device plugin and MIG manager on the cluster's first node, with a default configuration.

    Release 25.3 has one if its values have an empty one.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.strategy("mixed")
        self.layouts: t.Dict[str, t.Mapping[str, int]] = {}  # by configuration
        self._applied: t.Tuple[str, str] = ("", "")  # a pod and the configuration that it has applied

    def label(self, **labels: t.Optional[str]) -> None:
        given = json.dumps({"metadata": {"labels": labels}})
        self._kubectl("patch", "node", self._cluster.node, "--type=merge", "--patch=" + given)

    def step(self) -> None:
        items = json.loads(self._kubectl("get", "nodes,pods,daemonsets", "--output=json"))["items"]
        (node,) = [each for each in items if each["metadata"]["name"] == self._cluster.node]
        pods = [each for each in items if each["kind"] == "Pod"]
        labels = node["metadata"]["labels"]
        self.plugins((each for each in pods if UNSIMULATED in each["metadata"]["labels"]), labels.get(DEFAULT, ""))
        deployed = any(each["kind"] == "DaemonSet" and each["metadata"]["name"] == MANAGER for each in items)
        if deployed and not labels.get(DEPLOYED):
            self.label(**{DEPLOYED: "true"})
        if deployed and CONFIG not in labels:
            labels = self._cluster.read()["metadata"]["labels"]  # it may have been labelled in the meantime
            assert CONFIG in labels, "the operator would label the node all-disabled"
        wanted = labels.get(CONFIG)
        for pod in self._uids(MANAGER, pods):
            if wanted and (pod, wanted) != self._applied:
                self._applied = (pod, wanted)
                self._apply(pod, wanted, labels)

    def _uids(self, app: str, pods: t.Optional[t.Iterable[Data]] = None) -> t.List[str]:
        """Those of the ready pods of a component on the node."""
        if pods is None:
            pods = json.loads(self._kubectl("get", "pods", "--output=json"))["items"]
        here = [each for each in pods if each["spec"].get("nodeName") == self._cluster.node and is_ready(each)]
        return [each["metadata"]["uid"] for each in here if each["metadata"]["labels"]["app"] == app]

    def _apply(self, pod: str, config: str, labels: t.Mapping[str, str]) -> None:
        """What the MIG manager does. It ends with its pod, wherever it is."""
        wanted = facts(self.layouts[config])
        if self.gpus.read_text() == wanted:
            self.label(**{STATE: "success"})
            return
        self.label(**{STATE: "pending"})
        paused = [name for name, value in labels.items() if name.startswith(DEPLOY) and value == "true"]
        paused = [name for name in paused if name != DEPLOYED]
        for change in (dict.fromkeys(paused, PAUSED), {}, dict.fromkeys(paused, "true"), {STATE: "success"}):
            if pod not in self._uids(MANAGER):
                return
            if change:
                self.label(**change)
                continue
            while self._uids(PLUGIN):
                time.sleep(0.1)
            self.write(wanted)

    def idle(self) -> None:
        """Wait until the MIG manager has applied its configuration, if it is deployed."""
        deadline = time.monotonic() + SETTLED
        while True:
            labels = self._cluster.read()["metadata"]["labels"]
            if CONFIG not in labels or labels.get(DEPLOYED) != "true" or labels.get(STATE) == "success":
                return
            assert time.monotonic() < deadline, labels
            time.sleep(0.5)

    def current(self) -> t.Dict[str, int]:
        """The MIG devices that the node has."""
        devices = json.loads(self.gpus.read_text())[0]["mig"]["devices"]
        return dict(Counter(each["profile"] for each in devices))

    def reset(self, devices: t.Mapping[str, int]) -> None:
        """What the role nvidia_mig does."""
        self.write(facts(devices))
        self._kubectl("delete", "pods", "-l", "app=" + PLUGIN)


@pytest.fixture(name="operator")
def fixture_operator(cluster: Cluster) -> t.Iterator[Operator]:
    cluster.create()
    cluster.playbook = Path(__file__).with_name("plan.yml")
    with Operator(cluster) as operator:
        operator.advertises(State().offers())
        cluster.settled()
        yield operator


def planned(operator: Operator, cluster: Cluster, state: State) -> Data:
    """The variables of a run, after the reasons against it have gone."""
    deadline = time.monotonic() + SETTLED
    while True:
        gpus = json.loads(operator.gpus.read_text())
        given = state.variables(cluster.node, gpus)
        host = cluster_nodes.host_of("localhost", given)
        installation = Installation(GPU_OPERATOR, {**OWN, "namespace": cluster.name}, state.owner, drain=True)
        found = charts_plan.plan_installation(installation, [host], Objects({"resources": [cluster.read()]}))
        if found.plan is not None:
            break
        assert time.monotonic() < deadline, found.problems
        time.sleep(1)
    plan = found.plan.serialized()
    expected = [each for part in (plan, *plan["while_drained"].values()) for each in part["expected"].values()]
    operator.layouts.update({each["config"]: state.devices for each in expected if each["config"]})
    if host.sharing:
        operator.replicas[mig_configs.config_name(host.sharing)] = state.replicas
    given.pop("ansible_facts")
    for later in plan["while_drained"].values():
        later["expected"][cluster.node]["validator"] = False  # not simulated
    return {
        **given,
        "plan": plan,
        "gpus_file": str(operator.gpus),
        "chart_namespace": cluster.name,
        "by_operator": state.owner == "operator",
        "change": chart(cluster, state.owner),
    }


def chart(cluster: Cluster, owner: str) -> str:
    """The command that installs the MIG manager, or removes it."""
    kubectl = "kubectl --kubeconfig=%s --namespace=%s " % (cluster.plane.kubeconfig("admin"), cluster.name)
    if owner == "host":
        return kubectl + "delete daemonset --ignore-not-found " + MANAGER
    manager = with_pods("DaemonSet", MANAGER, {"group": cluster.name, DEPLOYED: "true"}, {}, {})
    (cluster.work / "manager.json").write_text(json.dumps(manager))
    return kubectl + "apply --filename=%s" % (cluster.work / "manager.json")


def reached(operator: Operator, cluster: Cluster, state: State) -> None:
    operator.advertises(state.offers())
    found = cluster.read()
    labels, annotations = found["metadata"]["labels"], found["metadata"].get("annotations", {})
    assert not found["spec"].get("unschedulable") and RECORD not in annotations
    assert labels.get(STATE) == ("success" if state.owner == "operator" else None)
    assert (CONFIG in labels) is (state.owner == "operator") and (DEFAULT in labels) is (state.replicas > 1)
    assert labels.get(DEPLOYED) in ("true", None) and labels[DEPLOY + "device-plugin"] == "true"
    cluster.settled()


def test_from_every_interruption_a_run_completes_the_change_or_its_opposite(
    cluster: Cluster, operator: Operator
) -> None:
    """From the host as owner of MIG to the operator, with another layout, and with shared devices; and back."""
    after, number, done = State("operator", MIXED, replicas=2), 1, False
    while not done:
        done = not cluster.killed(number, **planned(operator, cluster, after))
        if done or number % 2:
            cluster.run(**planned(operator, cluster, after))
            reached(operator, cluster, after)
            cluster.proxy.writes.clear()
            done &= not cluster.killed(number, **planned(operator, cluster, State(devices=operator.current())))
        operator.idle()
        before = State(devices=operator.current())
        cluster.run(**planned(operator, cluster, before))
        reached(operator, cluster, before)
        operator.reset(SEVEN)
        operator.advertises(State().offers())
        cluster.proxy.writes.clear()
        number += 1
    assert number > 4
