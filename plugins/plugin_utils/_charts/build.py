# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a role writes to the cluster, once nothing prevents it."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.nodes import Host, name_of
from .._cluster.readiness import ExpectedNode
from .._drain import record
from . import helm_chart, objects, operator_mig, plugin_sharing, releases
from .inputs import Cluster, Installation, installation_method
from .objects import Object
from .operator_mig import MigPlan


class ChartTarget(t.NamedTuple):
    """The values of the chart, and the nodes that it is installed on."""

    values: Data
    nodes: t.Mapping[str, Data]  # all of the cluster, by name
    hosts: t.Mapping[str, Host]  # by the name of their node
    expected: t.Mapping[str, ExpectedNode]  # the expected state, by host


class DrainedChange(t.NamedTuple):
    """What changes on a node while it is drained. The fields have the meaning of those of ChartPlan."""

    labels: t.Sequence[Data]
    retry: t.Sequence[str]
    plugin_labels: t.Sequence[Data]
    expected: t.Mapping[str, ExpectedNode]
    differences: t.Sequence[str]  # between node and variables, as verify reports them


class ChartPlan(t.NamedTuple):
    """What a role installs. Changes of labels have the keys ``node`` and ``labels``, where null removes one."""

    chart_values: Data  # of the chart
    method: str  # helm_chart or helm
    helm_chart: Object  # installs the chart, if that is the method
    objects: t.Sequence[Object]  # that are written before the chart is installed
    pods_runtime_class: str  # of pods that use GPUs
    has_gfd: bool  # whether GPU feature discovery labels the nodes
    labels: t.Sequence[Data]  # of the MIG manager, which are written before the chart is installed
    retry: t.Sequence[str]  # nodes on which the MIG manager applies a failed configuration again
    removed: t.Sequence[Data]  # labels of the MIG manager, which are removed after the chart has stopped it
    plugin_labels: t.Sequence[Data]  # of the device plugin
    stale: t.Sequence[Data]  # device plugins that are older than the MIG instances: namespace, name and uid
    expected: t.Mapping[str, ExpectedNode]  # the expected state by node, without those of while_drained
    while_drained: t.Mapping[str, DrainedChange]  # what changes later, by host

    @property
    def outdated(self) -> list[str]:
        """What differs from the variables, with their names, except for a chart that helm installs."""
        objects = [*self.objects, *([self.helm_chart] if self.method == "helm_chart" else [])]
        differs = {
            **{str(each): not each.is_current for each in objects},
            "node labels of the MIG manager (nvidia_mig_owner, nvidia_mig_layout)": self.labels
            or self.retry
            or self.removed,
            "node labels of the device plugin (gpu_cluster_sharing)": self.plugin_labels,
            "device plugins older than the MIG instances": self.stale,
        }
        return [text for text, differ in differs.items() if differ]

    def serialized(self) -> Data:
        """As plain data, which the tasks of the role and ``of`` read."""
        return {
            **self._asdict(),
            "helm_chart": self.helm_chart._asdict(),
            "objects": [each._asdict() for each in self.objects],
            "expected": _plain(self.expected),
            "while_drained": {
                host: {**each._asdict(), "expected": _plain(each.expected)} for host, each in self.while_drained.items()
            },
            "outdated": self.outdated,
        }

    @classmethod
    def of(cls, data: Data) -> ChartPlan:
        """The plan that was serialized. Ignores other keys."""
        while_drained = {
            host: DrainedChange(**{**each, "expected": _expected_nodes(each["expected"])})
            for host, each in data["while_drained"].items()
        }
        fields = {
            **{name: data[name] for name in cls._fields},
            "helm_chart": Object(**data["helm_chart"]),
            "objects": [Object(**each) for each in data["objects"]],
            "expected": _expected_nodes(data["expected"]),
            "while_drained": while_drained,
        }
        return cls(**fields)


def _plain(expected: t.Mapping[str, ExpectedNode]) -> Data:
    return {node: each._asdict() for node, each in expected.items()}


def _expected_nodes(plain: Data) -> dict[str, ExpectedNode]:
    return {node: ExpectedNode(**each) for node, each in plain.items()}


def build_plan(installation: Installation, target: ChartTarget, cluster: Cluster) -> ChartPlan:
    """The plan, for variables and a cluster in which the preconditions found no problems.

    Raises Refusal if a ConfigMap cannot get the configurations.
    """
    mig = _mig(installation, target, cluster)
    sharing = plugin_sharing.plan_sharing(target.hosts, target.nodes, cluster.plugin_config_map, installation.drain)
    expected = _expected(installation, target, mig)
    later = {
        node: host for node, host in target.hosts.items() if node in mig.while_drained or node in sharing.while_drained
    }
    changed = {node: host.mig_changed for node, host in target.hosts.items()}
    return ChartPlan(
        chart_values=target.values,
        method=installation_method(installation, cluster),
        helm_chart=helm_chart.helm_chart_object(installation, target.values, cluster),
        objects=objects.objects_to_write(installation, cluster, mig.config_map, sharing.config_map),
        pods_runtime_class=installation.chart.runtime_class(installation.variables, target.values),
        has_gfd=releases.value_at(target.values, "gfd.enabled") is not False,
        labels=mig.now.labels,
        retry=mig.now.retry,
        removed=mig.removed,
        plugin_labels=sharing.labels,
        stale=readiness.outdated_plugins(cluster.plugins["resources"], changed),
        expected={node: each for node, each in expected.items() if node not in later},
        while_drained={
            host.name: _drained_change(
                target.nodes[node], mig.while_drained.get(node), sharing.while_drained.get(node), expected[node]
            )
            for node, host in later.items()
        },
    )


def _mig(installation: Installation, target: ChartTarget, cluster: Cluster) -> MigPlan:
    if installation.uses_mig_manager:
        return operator_mig.plan_configurations(target.hosts, target.nodes, cluster.config_map, installation.drain)
    nodes = [target.nodes[node] for node in target.hosts]
    return operator_mig.plan_removal(nodes) if installation.chart.has_mig_manager else MigPlan()


def _expected(installation: Installation, target: ChartTarget, mig: MigPlan) -> dict[str, ExpectedNode]:
    """The expected state by node. With a configuration of the user, which may share GPUs, resources are not compared."""
    config = releases.value_at(installation.variables["values"], installation.chart.plugin_config)
    expected = {node: target.expected[host.name] for node, host in target.hosts.items()}
    if plugin_sharing.is_others(config):
        expected = {node: each._replace(resources=None) for node, each in expected.items()}
    return {node: each._replace(config=mig.configs.get(node, "")) for node, each in expected.items()}


def _drained_change(
    node: Data, mig: operator_mig.Changes | None, plugin_labels: t.Sequence[Data] | None, expected: ExpectedNode
) -> DrainedChange:
    labels, retry = mig or operator_mig.Changes()
    differences = record.interrupted(node)
    if labels or retry or plugin_labels:
        differences.append(
            "its MIG layout or sharing of GPUs has not been applied: run site.yml or managed_cluster.yml"
        )
    return DrainedChange(labels, retry, plugin_labels or [], {name_of(node): expected}, differences)
