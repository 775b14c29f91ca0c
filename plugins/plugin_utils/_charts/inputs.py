# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The inputs of a plan: the variables of a role, and the objects of the cluster."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, permissions, plugin_configs, responses
from .chart import Chart
from .owner import Release

_NOTHING: Data = {"resources": []}


class Cluster(t.NamedTuple):
    """The results of reading the cluster. A result with ``msg`` failed."""

    nodes: Data
    daemonsets: Data = _NOTHING
    policies: Data = _NOTHING
    helm_charts: Data = _NOTHING
    config_map: Data = _NOTHING  # of the MIG manager
    plugin_config_map: Data = _NOTHING  # of the device plugin
    plugins: Data = _NOTHING  # the pods of the device plugin
    runtime_class: Data = _NOTHING
    namespace: Data = _NOTHING
    reviews: Data = {"results": []}  # of the permissions

    @property
    def is_readable(self) -> bool:
        """Whether the nodes could be read."""
        return "resources" in self.nodes


class Installation(t.NamedTuple):
    """A chart, the variables of its role without the role's prefix, and the relevant ones of other roles."""

    chart: Chart
    variables: t.Mapping[str, t.Any]
    owner: str = "host"  # of MIG: host or operator
    reboot: bool = False
    drain: bool = False
    changes: bool = True  # false: verify only compares the cluster with the variables
    check_pods: bool = True
    may_be_missing: bool = False
    on_controller: bool = True
    has_helm: bool = True  # whether the controller has the command helm
    selected: t.Collection[str] = ()  # the cluster roles whose version variable is set
    archive: t.Callable[[], bytes] = bytes  # reads the chart's file, if a variable names one

    @property
    def uses_mig_manager(self) -> bool:
        """Whether the MIG manager of the chart applies the layouts."""
        return self.chart.has_mig_manager and self.owner == "operator"

    @property
    def release(self) -> Release:
        """Namespace and name of the Helm release."""
        return self.variables["namespace"], self.variables["release"]


def cluster_of(requested: t.Iterable[str], results: t.Sequence[Data], **others: t.Any) -> Cluster:
    """The results of reading, in the order of their fields of Cluster, as ``objects_to_read`` names them."""
    fields: dict[str, t.Any] = dict(zip(requested, results, strict=True))
    return Cluster(**fields, **others)


def objects_to_read(installation: Installation) -> dict[str, Data]:
    """What is read for the plan, by the field of Cluster."""
    namespace, name = installation.release
    release = {"name": name, "namespace": "kube-system"}
    runtime_class = installation.variables.get("runtime_class") or "nvidia"
    return {
        "nodes": {"kind": "Node"},
        "daemonsets": {"kind": "DaemonSet", "api_version": "apps/v1"},
        "policies": {"kind": "ClusterPolicy", "api_version": "nvidia.com/v1"},
        "helm_charts": {"kind": "HelmChart", "api_version": "helm.cattle.io/v1", **release},
        "config_map": {"kind": "ConfigMap", "name": mig_configs.CONFIG_MAP, "namespace": namespace},
        "plugin_config_map": {"kind": "ConfigMap", "name": plugin_configs.CONFIG_MAP, "namespace": namespace},
        "plugins": {"kind": "Pod", "label_selectors": [installation.chart.plugin_selector]},
        "runtime_class": {"kind": "RuntimeClass", "api_version": "node.k8s.io/v1", "name": runtime_class},
        "namespace": {"kind": "Namespace", "name": namespace},
    }


def unreadable_objects(requested: t.Mapping[str, Data], cluster: Cluster) -> list[str]:
    """Objects that cannot be read. ``requested`` are by their field of Cluster."""
    return [
        "the cluster's objects of the kind %s cannot be read: %s" % (each["kind"], responses.message(result))
        for field, each in requested.items()
        for result in [getattr(cluster, field)]
        if "resources" not in result
    ]


def installation_method(installation: Installation, cluster: Cluster) -> str:
    """helm_chart: the helm-controller of RKE2 or k3s installs the chart; helm: the role does."""
    if installation.variables["method"] != "auto":
        return str(installation.variables["method"])
    return "helm_chart" if cluster.helm_charts.get("api_found") else "helm"


def required_permissions(installation: Installation, cluster: Cluster) -> list[Data]:
    """What the user must be allowed to do, as attributes of SelfSubjectAccessReviews."""
    return permissions.chart_permissions(
        installation.variables["namespace"],
        installation_method(installation, cluster),
        changes=installation.changes,
        drain=installation.drain and installation.changes,
        check_pods=installation.check_pods,
    )
