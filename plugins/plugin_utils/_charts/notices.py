# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Warnings about a chart that can be installed."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from .._cluster import nodes as cluster_nodes
from .._cluster import permissions
from .._cluster.nodes import Host, name_of
from .._layout import sharing as layout_sharing
from . import plugin_sharing, releases
from .inputs import Cluster, Installation

_TOLERATED: tuple[Data, ...] = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)  # by default


def unused_instances(installation: Installation, hosts: t.Iterable[Host], known: t.Collection[str]) -> list[str]:
    """MIG instances that the strategy does not advertise. ``known`` are the hosts with a valid layout."""
    strategy = installation.variables["mig_strategy"]
    return list(filter(None, (cluster_nodes.unused(host, strategy) for host in hosts if host.name in known)))


def chart_notices(
    installation: Installation,
    hosts: t.Mapping[str, Host],
    nodes: t.Mapping[str, Data],
    cluster: Cluster,
    values: Data,
) -> list[str]:
    """Warnings about a chart with its values. ``hosts`` are by the name of their node, ``nodes`` all of the cluster."""
    strategy = installation.variables["mig_strategy"]
    return [
        *_newer_release(installation),
        *_uncompared(installation),
        *filter(None, [permissions.unchecked(cluster.reviews)]),
        *filter(None, (cluster_nodes.unshared(host, strategy) for host in hosts.values())),
        *_undocumented(installation, nodes.values()),
        *installation.chart.warnings(values, cluster.daemonsets["resources"]),
        *_tainted(installation, (nodes[name] for name in hosts), values),
    ]


def _newer_release(installation: Installation) -> list[str]:
    """Warnings about a release that is newer than the supported ones, and about values that it may or may not have."""
    role, chart, variables = installation.chart.role, installation.chart.name, installation.variables
    if not releases.is_newer(chart, variables["version"]):
        return []
    release = releases.release(chart, variables["version"])
    unknown = releases.unknown_keys(variables["values"], releases.keys(chart, release), role + "_values")
    return [
        "%s_version is %s, which is newer than the releases that this version of the collection supports: values are "
        "checked with the keys of the newest of them, %s" % (role, variables["version"], release),
        *(
            "%s is unknown in %s %s: check that the chart of %s has it" % (path, chart, release, variables["version"])
            for path in unknown
        ),
    ]


def _uncompared(installation: Installation) -> list[str]:
    chart = installation.chart
    if not plugin_sharing.is_others(releases.value_at(installation.variables["values"], chart.plugin_config)):
        return []
    return [
        "%s_values.%s may share GPUs, so the resources that nodes advertise are not compared with the layouts. "
        "Instead of it, use %s" % (chart.role, chart.plugin_config, layout_sharing.VARIABLE)
    ]


def _undocumented(installation: Installation, nodes: t.Iterable[Data]) -> list[str]:
    """A warning about kubelets outside the versions that NVIDIA documents for the release."""
    chart, version = installation.chart.name, installation.variables["version"]
    if releases.is_newer(chart, version):
        return []
    release = releases.release(chart, version)
    documented = releases.kubernetes(chart, release)
    versions = {cluster_nodes.kubelet_version(node) for node in nodes}
    minors = {version: found for version in versions if (found := re.match(r"v1\.([0-9]{1,4})", version))}
    outside = sorted(version for version, found in minors.items() if documented and int(found[1]) not in documented)
    if not outside:
        return []
    return [
        "NVIDIA documents %s %s for Kubernetes 1.%d to 1.%d, but this cluster has %s"
        % (chart, release, min(documented), max(documented), ", ".join(outside))
    ]


def _tainted(installation: Installation, nodes: t.Iterable[Data], values: Data) -> list[str]:
    """Taints that keep the pods of the chart away. Such a taint may be temporary."""
    chart = installation.chart
    tolerations = releases.value_at(values, chart.tolerations) or _TOLERATED
    return [
        "node %s has the taint %s%s:%s, which pods of the chart do not tolerate: add a toleration to %s_tolerations, or "
        "to the tolerations in its values"
        % (name_of(node), taint["key"], "=" + taint["value"] if taint.get("value") else "", taint["effect"], chart.role)
        for node in nodes
        for taint in (node.get("spec") or {}).get("taints") or ()
        # Pods of DaemonSets tolerate those of Kubernetes itself.
        if taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith("node.kubernetes.io/")
        if not any(_tolerates(each, taint) for each in tolerations)
    ]


def _tolerates(toleration: Data, taint: Data) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value") or "") == (taint["key"], taint.get("value") or "")
