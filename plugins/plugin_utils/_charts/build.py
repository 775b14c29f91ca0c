# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a role writes to the cluster, once nothing prevents it."""

from __future__ import annotations

import typing as t

import yaml

from .._cluster import plugin_configs, readiness
from .._cluster.nodes import Host, labels_of, name_of
from .._cluster.readiness import ExpectedNode
from .._drain import record
from . import comparison, helm_chart, operator_mig, operator_values, plugin_sharing, releases
from .inputs import Cluster, Installation, method
from .operator_mig import MigPlan
from .plugin_sharing import SharingPlan
from .releases import Data

_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}


class Target(t.NamedTuple):
    """The values of the chart, and the nodes that it is installed on."""

    values: Data
    nodes: t.Mapping[str, Data]  # all of the cluster, by name
    hosts: t.Mapping[str, Host]  # by the name of their node
    wanted: t.Mapping[str, ExpectedNode]  # the expected state, by host


class Pending(t.NamedTuple):
    """What changes on a node later, while it is drained. The fields have the meaning of those of Plan."""

    labels: t.Sequence[Data]
    retry: t.Sequence[str]
    plugin_labels: t.Sequence[Data]
    wanted: t.Mapping[str, ExpectedNode]
    differences: t.Sequence[str]  # between node and variables, as verify reports them


class Plan(t.NamedTuple):
    """What a role installs. Changes of labels have the keys ``node`` and ``labels``, where null removes one."""

    values: Data  # of the chart
    values_text: str  # the same, as YAML
    method: str  # helm_chart or helm
    helm_chart: Data  # the specification of the HelmChart
    runtime_class: str  # the RuntimeClass to create; empty if there is none
    pods_runtime_class: str  # of pods that use GPUs
    has_gfd: bool  # whether GPU feature discovery labels the nodes
    config_maps: t.Sequence[Data]  # with the keys name, data and version; empty if it is new
    configs: t.Mapping[str, str]  # the configuration that the MIG manager applies, by node
    labels: t.Sequence[Data]  # of the MIG manager, which are written before the chart is installed
    retry: t.Sequence[str]  # nodes on which the MIG manager applies a failed configuration again
    removed: t.Sequence[Data]  # labels of the MIG manager, which are removed after the chart has stopped it
    plugin_labels: t.Sequence[Data]  # of the device plugin
    stale: t.Sequence[Data]  # device plugins that are older than the MIG instances: namespace, name and uid
    wanted: t.Mapping[str, ExpectedNode]  # the expected state of the nodes that are not pending
    pending: t.Mapping[str, Pending]  # by host
    outdated: t.Sequence[str] = []  # what a change would create or write, except with helm

    def serialized(self) -> Data:
        """As plain data, which the tasks of the role read."""
        pending = {host: {**each._asdict(), "wanted": _plain(each.wanted)} for host, each in self.pending.items()}
        return {**self._asdict(), "wanted": _plain(self.wanted), "pending": pending}


def _plain(wanted: t.Mapping[str, ExpectedNode]) -> Data:
    return {node: each._asdict() for node, each in wanted.items()}


def build(installation: Installation, target: Target, cluster: Cluster) -> Plan:
    mig = _mig(installation, target, cluster)
    sharing = plugin_sharing.plan(target.hosts, target.nodes, cluster.plugin_config_map, installation.drain)
    wanted = _expected(installation, target, mig)
    later = {node: host for node, host in target.hosts.items() if node in mig.pending or node in sharing.pending}
    changed = {node: host.mig_changed for node, host in target.hosts.items()}
    text = yaml.safe_dump(target.values, sort_keys=True, default_flow_style=False)
    out = Plan(
        values=target.values,
        values_text=text,
        method=method(installation, cluster),
        helm_chart=helm_chart.specification(installation.variables, text, installation.archive),
        runtime_class=_runtime_class(installation, cluster),
        pods_runtime_class=installation.chart.runtime_class(installation.variables, target.values),
        has_gfd=releases.value(target.values, "gfd.enabled") is not False,
        config_maps=_config_maps(mig, sharing, cluster),
        configs=mig.configs,
        labels=mig.now.labels,
        retry=mig.now.retry,
        removed=mig.removed,
        plugin_labels=sharing.labels,
        stale=readiness.stale(cluster.plugins["resources"], changed),
        wanted={node: each for node, each in wanted.items() if node not in later},
        pending={
            host.name: _pending(target.nodes[node], mig.pending.get(node), sharing.pending.get(node), wanted[node])
            for node, host in later.items()
        },
    )
    return out._replace(outdated=_outdated(installation, out, cluster))


def _mig(installation: Installation, target: Target, cluster: Cluster) -> MigPlan:
    if installation.uses_mig_manager:
        return operator_mig.plan(target.hosts, target.nodes, cluster.config_map, installation.drain)
    nodes = [target.nodes[node] for node in target.hosts]
    return operator_mig.removal(nodes) if installation.chart.has_mig_manager else MigPlan()


def _expected(installation: Installation, target: Target, mig: MigPlan) -> dict[str, ExpectedNode]:
    """The expected state by node. With a configuration of the user, which may share GPUs, resources are not compared."""
    config = releases.value(installation.variables["values"], installation.chart.plugin_config)
    wanted = {node: target.wanted[host.name] for node, host in target.hosts.items()}
    if plugin_sharing.is_others(config):
        wanted = {node: each._replace(resources=None) for node, each in wanted.items()}
    return {node: each._replace(config=mig.configs.get(node, "")) for node, each in wanted.items()}


def _config_maps(mig: MigPlan, sharing: SharingPlan, cluster: Cluster) -> list[Data]:
    maps = (
        (operator_values.CONFIG_MAP, mig.config_map, cluster.config_map),
        (plugin_configs.CONFIG_MAP, sharing.config_map, cluster.plugin_config_map),
    )
    return [
        {"name": name, "data": data, "version": _version(existing)} for name, data, existing in maps if data is not None
    ]


def _version(existing: Data) -> str:
    """The API rejects a change of another version, which another run has changed in the meantime. Empty for a new one."""
    return next((str(item["metadata"].get("resourceVersion", "")) for item in existing.get("resources") or ()), "")


def _pending(
    node: Data, mig: operator_mig.Changes | None, plugin_labels: t.Sequence[Data] | None, wanted: ExpectedNode
) -> Pending:
    labels, retry = mig or operator_mig.Changes()
    differences = record.interrupted(node)
    if labels or retry or plugin_labels:
        differences.append(
            "its MIG layout or sharing of GPUs has not been applied: run site.yml or managed_cluster.yml"
        )
    return Pending(labels, retry, plugin_labels or [], {name_of(node): wanted}, differences)


def _runtime_class(installation: Installation, cluster: Cluster) -> str:
    """The RuntimeClass to create; empty if another owner, such as RKE2 or the GPU operator, has created it."""
    wanted = str(installation.variables.get("runtime_class", ""))
    existing = cluster.runtime_class["resources"]
    ours = all(labels_of(item).get("app.kubernetes.io/managed-by") == "gpufleet.node" for item in existing)
    return wanted if ours else ""


def _outdated(installation: Installation, planned: Plan, cluster: Cluster) -> list[str]:
    has = comparison.has_object
    privileged = _PRIVILEGED if installation.variables["namespace_privileged"] else {}
    name, chart = planned.runtime_class, planned.helm_chart
    maps = {operator_values.CONFIG_MAP: cluster.config_map, plugin_configs.CONFIG_MAP: cluster.plugin_config_map}
    differs = {
        "namespace": not has(cluster.namespace, {"metadata": {"labels": privileged}}),
        "RuntimeClass": bool(name) and not has(cluster.runtime_class, {"handler": name}),
        "configurations": not all(has(maps[each["name"]], {"data": each["data"]}) for each in planned.config_maps),
        "node labels": bool(planned.labels or planned.retry or planned.removed),
        "node labels of the device plugin": bool(planned.plugin_labels),
        "device plugins older than the MIG instances": bool(planned.stale),
        "HelmChart": planned.method == "helm_chart" and not helm_chart.is_current(chart, cluster.helm_charts),
    }
    return [what for what, differ in differs.items() if differ]
