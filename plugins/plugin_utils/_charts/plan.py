# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan what a role installs in a cluster, from its variables, the hosts' GPUs and the objects of the cluster."""

from __future__ import annotations

import json
import re
import typing as t

import yaml

from ...module_utils._mig.errors import MigError
from .._cluster import api, mig_configs, readiness
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host, labels_of, name_of
from .._common.refusal import Refusal
from .._drain import record as drain_record
from .._layout import problems as layout_problems
from .._layout import sharing as layout_sharing
from . import device_plugin_values, mapping, operator_mig, operator_values, plugin_configs, releases
from . import owner as charts_owner
from . import permissions as charts_permissions
from .releases import Data

CHARTS = {"gpu_operator": operator_values.CHART, "device_plugin": device_plugin_values.CHART}
_CLIENT = re.compile(r"Failed to import the required Python library \((kubernetes|PyYAML)\)")
_PRESENT = "nvidia.com/gpu.present"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # annotation that kubernetes.core.k8s writes too
_NOTHING: Data = {"resources": []}
# The labels of the device plugin's pods.
_PLUGIN = {
    "gpu_operator": "app=nvidia-device-plugin-daemonset",
    "device_plugin": "app.kubernetes.io/name=nvidia-device-plugin",
}
# Values of the charts: the device plugin's configuration, and the fewest tolerations of pods on GPU nodes.
_PLUGIN_CONFIG = {"gpu_operator": "devicePlugin.config", "device_plugin": "config"}
_TOLERATIONS = {"gpu_operator": "daemonsets.tolerations", "device_plugin": "nfd.worker.tolerations"}
_TOLERATED: tuple[Data, ...] = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)  # by default


class Cluster(t.NamedTuple):
    """The results of reading the cluster. A result with ``msg`` and without ``resources`` failed."""

    nodes: Data
    daemonsets: Data = _NOTHING
    policies: Data = _NOTHING
    helm_charts: Data = _NOTHING
    config_map: Data = _NOTHING  # of the MIG manager
    plugin_config_map: Data = _NOTHING  # of the device plugin
    plugins: Data = _NOTHING  # the pods of the device plugin
    runtime_class: Data = _NOTHING
    namespace: Data = _NOTHING
    reviews: t.Sequence[Data] = ()


class Settings(t.NamedTuple):
    """The variables of a role, without its prefix, and the relevant ones of other roles."""

    role: str
    own: t.Mapping[str, t.Any]
    owner: str = "host"
    reboot: bool = False
    drain: bool = False
    changes: bool = True  # false: verify only compares the cluster with the variables
    check_pods: bool = True
    may_be_missing: bool = False
    on_controller: bool = True
    selected: t.Collection[str] = ()  # the cluster roles whose version variable is set


class Planned(t.NamedTuple):
    """``problems`` are grouped by host, with the cluster's problems under the first host."""

    problems: t.Dict[str, t.List[str]]
    warnings: t.List[str]
    plan: Data
    missing: bool  # the cluster cannot be reached, and this is accepted


def objects(settings: Settings) -> dict[str, Data]:
    """The objects that the plan needs, by their field of Cluster."""
    namespace = settings.own["namespace"]
    release = {"name": settings.own["release"], "namespace": "kube-system"}
    runtime_class = settings.own.get("runtime_class") or "nvidia"
    return {
        "nodes": {"kind": "Node"},
        "daemonsets": {"kind": "DaemonSet", "api_version": "apps/v1"},
        "policies": {"kind": "ClusterPolicy", "api_version": "nvidia.com/v1"},
        "helm_charts": {"kind": "HelmChart", "api_version": "helm.cattle.io/v1", **release},
        "config_map": {"kind": "ConfigMap", "name": operator_values.CONFIG_MAP, "namespace": namespace},
        "plugin_config_map": {"kind": "ConfigMap", "name": plugin_configs.CONFIG_MAP, "namespace": namespace},
        "plugins": {"kind": "Pod", "label_selectors": [_PLUGIN[settings.role]]},
        "runtime_class": {"kind": "RuntimeClass", "api_version": "node.k8s.io/v1", "name": runtime_class},
        "namespace": {"kind": "Namespace", "name": namespace},
    }


def permissions(settings: Settings, cluster: Cluster) -> list[Data]:
    """What the user must be allowed to do."""
    method = _method(settings, cluster)
    drain = settings.drain and settings.changes
    return charts_permissions.of_chart(
        settings.own["namespace"], method, changes=settings.changes, drain=drain, check_pods=settings.check_pods
    )


def own_labels(nodes: t.Iterable[Data]) -> dict[str, dict[str, str | None]]:
    """The changes that remove the labels of this collection, by node."""
    states = {mig_configs.LABEL: [mig_configs.STATE]}
    out: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        for name in (mig_configs.LABEL, plugin_configs.LABEL, operator_mig.MANAGER):
            if mig_configs.is_ours(labels_of(node).get(name)):
                out.setdefault(name_of(node), {}).update(dict.fromkeys([name, *states.get(name, [])]))
    return out


def operator_labels(nodes: t.Iterable[Data]) -> dict[str, dict[str, str | None]]:
    """The changes that remove what only the GPU operator writes, by node. It leaves these labels when it is uninstalled.

    A value such as false is a user's, who keeps a component from a node.
    """
    out: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        for name, value in labels_of(node).items():
            if name == _PRESENT or (
                name.startswith(drain_record.DEPLOY) and (value == "true" or value.startswith("paused-"))
            ):
                out.setdefault(name_of(node), {})[name] = None
    return out


def plan(settings: Settings, hosts: t.Sequence[Host], cluster: Cluster, failed: t.Sequence[Host] = ()) -> Planned:
    """Plan for ``hosts``. The chart's values also depend on hosts that have ``failed`` before."""
    problems: dict[str, list[str]] = {host.name: [] for host in hosts}
    shared = problems[hosts[0].name]
    why = unreachable(cluster.nodes, settings.may_be_missing, settings.on_controller)
    shared.extend(_of_roles(settings))
    if why:
        shared.append(why)
    missing = "resources" not in cluster.nodes
    nodes: dict[str, Data] = {name_of(node): node for node in cluster.nodes.get("resources") or ()}
    found: dict[str, str] = {}
    operates = settings.role == "gpu_operator" and settings.owner == "operator"
    for host in hosts:
        problems[host.name].extend(operator_mig.without_layout(host) if operates else [])
        if missing or host.gpus == []:
            continue
        node, reason = cluster_nodes.find(host, sorted(nodes))
        if node is None:
            problems[host.name].append(reason)
            continue
        problems[host.name].extend(cluster_nodes.taken(node, found))
        found[host.name] = node
        problems[host.name].extend(charts_owner.of_node(nodes[node], settings.owner))
        problems[host.name].extend(plugin_configs.problems(host, nodes[node]))
        # With drains, this run returns the node. A damaged record is reported with the labels.
        problems[host.name].extend([] if settings.drain else drain_record.interrupted(nodes[node]))
        if operates:
            problems[host.name].extend(operator_mig.problems(host, nodes[node]))
    wanted, warnings = _wanted(settings, hosts, problems)
    if not missing:
        shared.extend(_of_cluster(settings, cluster))
    by_node = {found[host.name]: host for host in hosts if host.name in found}
    mig_unused = bool(warnings or _wanted(settings, failed, {host.name: [] for host in failed})[1])
    config = releases.value(settings.own["values"], _PLUGIN_CONFIG[settings.role])
    # The end of sharing must not restart the device plugins, because drained nodes are shared until later.
    shares = plugin_configs.used(by_node, nodes) or (
        bool(cluster.plugin_config_map.get("resources")) and config is None
    )
    chart, own_problems = _chart(settings, nodes, mig_unused, shares)
    shared.extend(own_problems or _without_gfd(hosts, chart["values"]))
    out: Data = {}
    if not any(problems.values()) and not missing:
        out = {**chart, **_configurations(settings, by_node, nodes, cluster)}
        if plugin_configs.is_others(config):
            wanted = {host: {**each, "resources": None} for host, each in wanted.items()}
            warnings.append(
                "%s_values.%s may share GPUs, so the resources that nodes advertise are not compared with the layouts. "
                "Instead of it, use %s" % (settings.role, _PLUGIN_CONFIG[settings.role], layout_sharing.VARIABLE)
            )
        out["wanted"] = {
            found[host]: {**each, "config": out["configs"].get(found[host], "")}
            for host, each in wanted.items()
            if host in found
        }
        for host, later in out["pending"].items():
            later["wanted"] = {found[host]: out["wanted"].pop(found[host])}
        changed = {node: host.mig_changed for node, host in by_node.items()}
        out["stale"] = readiness.stale(cluster.plugins["resources"], changed)
        out["runtime_class"] = _runtime_class(settings, cluster)
        out["method"] = _method(settings, cluster)
        out["pods_runtime_class"] = _pods_runtime_class(settings, chart["values"])
        out["outdated"] = _outdated(settings, cluster, out)
        out["has_gfd"] = releases.value(chart["values"], "gfd.enabled") is not False
        warnings.extend(filter(None, (cluster_nodes.unshared(host, settings.own["mig_strategy"]) for host in hosts)))
        warnings.extend(_of_version(settings, nodes))
        if settings.role == "device_plugin":
            warnings.extend(device_plugin_values.warnings(chart["values"], cluster.daemonsets["resources"]))
        warnings.extend(_tainted(settings.role, (nodes[name] for name in by_node), chart["values"]))
    if missing and not why:
        warnings.append("the cluster cannot be read yet, so %s cannot show its changes" % settings.role)
    return Planned(problems, warnings, out, missing and not why)


def unreachable(nodes: Data, may_be_missing: bool, on_controller: bool) -> str:
    """Why the cluster cannot be read; empty if it can, or if this is expected."""
    if "resources" in nodes:
        return ""
    message = api.message(nodes)
    client = _CLIENT.search(message)
    if client and on_controller:
        return (
            "the controller's Python lacks the library %s: install it in Ansible's environment, with pip install "
            "kubernetes (or pipx inject, or in the execution environment)" % client.group(1)
        )
    # On a server, gpu_cluster installs the library.
    if client or may_be_missing:
        return ""
    return (
        "the cluster cannot be read: %s. Check gpu_cluster_host and gpu_cluster_kubeconfig, the permissions of its user, "
        "and that the API server runs" % message
    )


def _of_roles(settings: Settings) -> list[str]:
    if settings.role == "device_plugin" and "gpu_operator" in settings.selected:
        return [
            "device_plugin_version and gpu_operator_version are both set, but the GPU operator includes a device "
            "plugin: remove one of them"
        ]
    if settings.role == "device_plugin" and settings.owner == "operator":
        return [
            "nvidia_mig_owner is operator, but the MIG manager is part of the GPU operator: use the role gpu_operator, "
            "or set nvidia_mig_owner to host (in a managed cluster, remove nvidia_mig_layout)"
        ]
    return []


def _of_cluster(settings: Settings, cluster: Cluster) -> list[str]:
    unread = [
        "the cluster's objects of the kind %s cannot be read: %s" % (wanted["kind"], api.message(result))
        for field, wanted in objects(settings).items()
        for result in [getattr(cluster, field)]
        if "resources" not in result
    ]
    if unread:  # they could include another owner of the GPUs
        return unread
    out = charts_owner.of_cluster(
        settings.role,
        settings.own["namespace"],
        settings.own["release"],
        cluster.daemonsets["resources"],
        cluster.policies["resources"],
    )
    helm = "use one with the ClusterRole cluster-admin, because helm needs the permissions for all objects of the chart"
    remedy = helm if _method(settings, cluster) == "helm" else charts_permissions.BIND
    out.extend(filter(None, [charts_permissions.problem(cluster.reviews, remedy)]))
    if settings.own["method"] == "helm_chart" and not cluster.helm_charts.get("api_found"):
        out.append(
            "%s_method is helm_chart, but the cluster has no helm-controller, which is part of RKE2 and k3s: set it to helm"
            % settings.role
        )
    return out


def _wanted(
    settings: Settings, hosts: t.Sequence[Host], problems: t.Mapping[str, list[str]]
) -> tuple[dict[str, Data], list[str]]:
    """The resources of each host. Layouts that the strategy does not support are added to the problems."""
    strategy = settings.own["mig_strategy"]
    out: dict[str, Data] = {}
    warnings = []
    for host in hosts:
        # The same text as that of the role nvidia_mig, so that preflight lists it once.
        malformed = [] if host.layout is None else layout_problems.of_variable(host.layout)
        if malformed:
            problems[host.name].extend(malformed)
            continue
        try:
            resources = cluster_nodes.expected(host, strategy)
            unused = cluster_nodes.unused(host, strategy)
            if settings.owner == "operator" and host.layout is not None and cluster_nodes.gpus(host):
                mig_configs.entries(host)
        except layout_sharing.Unshareable as error:
            problems[host.name].append(str(error))
            continue
        except (MigError, Refusal) as error:
            problems[host.name].append("%s (%s_mig_strategy is %s)" % (error, settings.role, strategy))
            continue
        if unused:
            warnings.append(unused)
        out[host.name] = {
            "resources": resources,
            "validator": settings.role == "gpu_operator",
            "replicas": {
                name: count
                for name, count in layout_sharing.replicas(layout_sharing.parse(host.sharing)).items()
                if name in (resources or ())
            },
            "profile": cluster_nodes.single_profile(host, strategy),
        }
    return out, warnings


def _chart(settings: Settings, nodes: t.Mapping[str, Data], mig_unused: bool, sharing: bool) -> tuple[Data, list[str]]:
    """The chart with its values."""
    own = settings.own
    try:
        release = releases.release(CHARTS[settings.role], own["version"])
    except Refusal as error:
        return {}, ["%s_version: %s" % (settings.role, error)]
    chart = operator_values if settings.role == "gpu_operator" else device_plugin_values
    inputs = mapping.ValueInputs(
        variables=own,
        owner=settings.owner,
        reboot=settings.reboot,
        rke2=any(_is_rke2(node) for node in nodes.values()),
        mig_unused=mig_unused,
        sharing=sharing,
    )
    problems = chart.problems(inputs, release)
    computed = {} if problems else chart.values(inputs, release)
    if problems:
        return {}, problems
    text = yaml.safe_dump(computed, sort_keys=True, default_flow_style=False)
    return {"values": computed, "values_text": text}, []


def _tainted(role: str, nodes: t.Iterable[Data], values: Data) -> list[str]:
    """Warnings about taints that keep the pods of the chart away. Such a taint may be temporary."""
    tolerations = releases.value(values, _TOLERATIONS[role]) or _TOLERATED
    return [
        "node %s has the taint %s%s:%s, which pods of the chart do not tolerate: add a toleration to %s_tolerations, or "
        "to the tolerations in its values"
        % (name_of(node), taint["key"], "=" + taint["value"] if taint.get("value") else "", taint["effect"], role)
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


def _is_rke2(node: Data) -> bool:
    version = str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"))
    return "+rke2" in version or "+k3s" in version


def _of_version(settings: Settings, nodes: t.Mapping[str, Data]) -> list[str]:
    """A warning about kubelets outside the versions that NVIDIA documents for the release."""
    chart = CHARTS[settings.role]
    release = releases.release(chart, settings.own["version"])
    documented = releases.kubernetes(chart, release)
    versions = {
        str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")) for node in nodes.values()
    }
    minors = {version: found for version in versions if (found := re.match(r"v1\.([0-9]{1,4})", version))}
    outside = sorted(version for version, found in minors.items() if documented and int(found[1]) not in documented)
    if not outside:
        return []
    return [
        "NVIDIA documents %s %s for Kubernetes 1.%d to 1.%d, but this cluster has %s"
        % (chart, release, min(documented), max(documented), ", ".join(outside))
    ]


def _method(settings: Settings, cluster: Cluster) -> str:
    """helm_chart: the helm-controller of RKE2 or k3s installs the chart; helm: the role does."""
    if settings.own["method"] != "auto":
        return str(settings.own["method"])
    return "helm_chart" if cluster.helm_charts.get("api_found") else "helm"


def _runtime_class(settings: Settings, cluster: Cluster) -> str:
    """The RuntimeClass to create; empty if another owner, such as RKE2 or the GPU operator, has created it."""
    wanted = str(settings.own.get("runtime_class", ""))
    existing = cluster.runtime_class["resources"]
    ours = all(labels_of(item).get("app.kubernetes.io/managed-by") == "gpufleet.node" for item in existing)
    return wanted if ours else ""


def _outdated(settings: Settings, cluster: Cluster, planned: Data) -> list[str]:
    """What a change would create or write, except the chart. Unlike requests with dryRun, this needs no permissions."""
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"} if settings.own["namespace_privileged"] else {}
    name = planned["runtime_class"]
    maps = {operator_values.CONFIG_MAP: cluster.config_map, plugin_configs.CONFIG_MAP: cluster.plugin_config_map}
    differs = {
        "namespace": not is_current({"metadata": {"labels": privileged}}, cluster.namespace),
        "RuntimeClass": bool(name) and not is_current({"handler": name}, cluster.runtime_class),
        "configurations": not all(
            is_current({"data": each["data"]}, maps[each["name"]]) for each in planned["config_maps"]
        ),
        "node labels": bool(planned["labels"] or planned["retry"] or planned["removed"]),
        "node labels of the device plugin": bool(planned["plugin_labels"]),
        "device plugins older than the MIG instances": bool(planned["stale"]),
    }
    return [what for what, differ in differs.items() if differ]


def is_current(wanted: Data, existing: Data) -> bool:
    """Whether an object exists and has all the wanted values. Keys that the API or someone else has added are ignored."""
    return any(_includes(item, wanted) for item in existing["resources"])


def _includes(item: t.Any, wanted: object) -> bool:
    if isinstance(wanted, dict) and isinstance(item or {}, dict):
        return all(_includes((item or {}).get(key), value) for key, value in wanted.items())
    return bool(item == wanted)


def chart_is_current(spec: Data, existing: Data) -> bool:
    """Whether the HelmChart has this specification, and none of the keys of a former one."""
    if not is_current({"spec": spec}, existing):
        return False
    annotations = existing["resources"][0]["metadata"].get("annotations") or {}
    try:
        return bool(json.loads(annotations[_APPLIED])["spec"] == spec)
    except (KeyError, TypeError, ValueError):
        return False


def _pods_runtime_class(settings: Settings, values: Data) -> str:
    """The RuntimeClass of pods that use GPUs."""
    if settings.role == "gpu_operator":
        return str(releases.value(values, "operator.runtimeClass") or "nvidia")
    return str(settings.own["runtime_class"])


def _configurations(
    settings: Settings, hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], cluster: Cluster
) -> Data:
    """The ConfigMaps and labels of the MIG manager and the device plugin. ``hosts`` are by the name of their node."""
    out = dict(_mig(settings, hosts, nodes, cluster.config_map))
    plugin = plugin_configs.plan(hosts, nodes, cluster.plugin_config_map, settings.drain)
    maps = (
        (operator_values.CONFIG_MAP, out.pop("config_map"), cluster.config_map),
        (plugin_configs.CONFIG_MAP, plugin["config_map"], cluster.plugin_config_map),
    )
    out["config_maps"] = [
        {"name": name, "data": data, "version": _version(existing)} for name, data, existing in maps if data is not None
    ]
    out["plugin_labels"] = plugin["labels"]
    first, out["pending"] = out["pending"], {}
    for node, host in hosts.items():
        if host.name in first or node in plugin["pending"]:
            later: Data = {"labels": [], "retry": [], **first.get(host.name, {})}
            later["plugin_labels"] = plugin["pending"].get(node, [])
            later["differences"] = [*drain_record.interrupted(nodes[node]), *_unapplied(later)]
            out["pending"][host.name] = later
    return out


def _version(existing: Data) -> str:
    """The API rejects a change of another version, which another run has changed in the meantime. Empty for a new one."""
    return next((str(item["metadata"].get("resourceVersion", "")) for item in existing.get("resources") or ()), "")


def _unapplied(later: Data) -> list[str]:
    if not (later["labels"] or later["retry"] or later["plugin_labels"]):
        return []
    return ["its MIG layout or sharing of GPUs has not been applied: run site.yml or managed_cluster.yml"]


def _mig(settings: Settings, hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], existing: Data) -> Data:
    if settings.role != "gpu_operator":
        return operator_mig.NOTHING
    if settings.owner == "host":
        return operator_mig.removal(nodes[node] for node in hosts)
    return operator_mig.plan(hosts, nodes, existing, settings.drain)


def _without_gfd(hosts: t.Iterable[Host], values: Data) -> list[str]:
    if releases.value(values, "gfd.enabled") is not False or not any(
        layout_sharing.uses_mps(host.sharing) for host in hosts
    ):
        return []
    return [
        "%s.mps needs GPU feature discovery, whose label starts the MPS control daemon on a node: enable it, or use "
        "timeSlicing" % layout_sharing.VARIABLE
    ]
