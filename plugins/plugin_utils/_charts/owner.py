# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Other owners of MIG in a cluster, and other device plugins."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster.labels import DEPLOY
from .._cluster.nodes import labels_of, name_of
from .._drain import dra_devices, operands
from .operator_mig import DEPLOY_MIG_MANAGER

# AKS: MicrosoftDocs/azure-aks-docs, articles/aks/aks-managed-gpu-nodes.md, 2026-04-27. The device plugin is a unit of systemd.
_AKS_MANAGED = ("kubernetes.azure.com/dcgm-exporter", "enabled")
# HAMi: Project-HAMi/HAMi, charts/hami/templates/device-plugin/daemonsetnvidia.yaml, read 2026-11.
_HAMI = ("app.kubernetes.io/component", "hami-device-plugin")

Release = t.Tuple[str, str]  # namespace and name of a Helm release


def label_problems(node: t.Mapping[str, t.Any], owner: str) -> list[str]:
    """Node labels that keep the GPU operator's components from running."""
    labels = labels_of(node)
    name = name_of(node)
    out = operands.paused_by_others(node, owner)
    if labels.get(DEPLOY + "operands") == "false":
        out.append(
            "the label %soperands=false of node %s disables the GPU operator there: remove it with kubectl label node "
            "%s %soperands-" % (DEPLOY, name, name, DEPLOY)
        )
    if owner == "operator" and labels.get(DEPLOY_MIG_MANAGER) == "false":
        out.append(
            "the label %s=false of node %s disables the MIG manager, but nvidia_mig_owner is operator: remove it with "
            "kubectl label node %s %s-, or set nvidia_mig_owner to host"
            % (DEPLOY_MIG_MANAGER, name, name, DEPLOY_MIG_MANAGER)
        )
    if _AKS_MANAGED in labels.items():
        out.append(
            "node %s has the label %s=%s, because AKS manages its device plugin, and two device plugins advertise each GPU "
            "twice: create a node pool with az aks nodepool add --enable-managed-gpu=false, and remove this one"
            % (name, *_AKS_MANAGED)
        )
    return out


def common_conflicts(role: str, daemonsets: t.Sequence[Data]) -> list[str]:
    """Components in the cluster that conflict with both charts."""
    hami = [
        "the cluster has the device plugin of HAMi, %s, and two device plugins on a node advertise each GPU twice: "
        "uninstall HAMi, or do not use the role %s" % (_path(item), role)
        for item in daemonsets
        if _is_hami(item)
    ]
    return [*dra_devices.dynamic_mig(daemonsets), *hami]


def conflicts_of_operator(own: Release, daemonsets: t.Iterable[Data], policies: t.Iterable[Data]) -> list[str]:
    """Components in the cluster that conflict with the GPU operator."""
    plugins = [
        "the cluster has another device plugin, %s, and two device plugins on a node advertise each GPU twice: "
        "uninstall it, or use the role device_plugin instead of gpu_operator" % _path(item)
        for item in daemonsets
        if _is_standalone(item)
    ]
    operators = [
        "the cluster has another GPU operator, of release %s in namespace %s: set gpu_operator_release and "
        "gpu_operator_namespace to these, or uninstall it" % found
        for found in map(_release, policies)
        if found[0] and found != own
    ]
    return [*plugins, *operators]


def conflicts_of_device_plugin(own: Release, daemonsets: t.Iterable[Data], policies: t.Iterable[Data]) -> list[str]:
    """Components in the cluster that conflict with the device plugin."""
    plugins = [
        "the cluster has another device plugin, %s: uninstall it, or set device_plugin_release and "
        "device_plugin_namespace to its release" % _path(item)
        if any(_release(item))
        else "the cluster has another device plugin, %s: remove it with kubectl delete daemonset --namespace %s %s"
        % (_path(item), item["metadata"].get("namespace"), name_of(item))
        for item in daemonsets
        if _is_standalone(item) and _release(item) != own
    ]
    operators = [
        "the cluster has the GPU operator (ClusterPolicy %s), which includes a device plugin: use the role "
        "gpu_operator, or uninstall the operator" % name_of(policy)
        for policy in policies
    ]
    return [*plugins, *operators]


def _release(item: t.Mapping[str, t.Any]) -> Release:
    """Namespace and name of the Helm release that an object belongs to; empty if Helm did not install it."""
    notes = item["metadata"].get("annotations") or {}
    return str(notes.get("meta.helm.sh/release-namespace", "")), str(notes.get("meta.helm.sh/release-name", ""))


def _path(item: Data) -> str:
    return "%s/%s" % (item["metadata"].get("namespace"), name_of(item))


def _selected(item: t.Mapping[str, t.Any]) -> t.Mapping[str, str]:
    """The labels of its pods."""
    return (item["spec"].get("selector") or {}).get("matchLabels") or {}


def _is_hami(item: t.Mapping[str, t.Any]) -> bool:
    return _HAMI in _selected(item).items()


def _is_standalone(item: t.Mapping[str, t.Any]) -> bool:
    """Whether it is the DaemonSet of the standalone device plugin's chart or static manifest."""
    labels, selected = labels_of(item), _selected(item)
    names = {labels.get("app.kubernetes.io/name"), selected.get("name"), selected.get("app.kubernetes.io/name")}
    mps = "mps-control-daemon" in name_of(item) or "gpu-feature-discovery" in name_of(item)
    return not (mps or _is_hami(item)) and bool(names & {"nvidia-device-plugin", "nvidia-device-plugin-ds"})
