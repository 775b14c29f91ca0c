# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU nodes of managed clusters, which are known only through the API: their boards, and what changes their MIG layout."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from ..module_utils._mig.errors import MigError
from . import _cluster_nodes, _plugin_configs, _readiness
from ._cluster_nodes import Data, Host, labels_of, name_of
from ._refusal import Refusal

_TYPE = "node.kubernetes.io/instance-type"
_TYPES = Path(__file__).with_name("instance_types.yml")
_AKS_COUNTS = {1: 7, 2: 3, 3: 2, 4: 1, 7: 1}  # instances of a GPU by their compute slices


class Platform(t.NamedTuple):
    name: str
    installs: bool = True  # whether charts are installed on its nodes
    changes: bool = True  # whether the MIG manager may change the layout of its nodes
    remedy: str = ""  # how to get another layout
    strategy: str = ""  # of its own device plugin; empty if charts are installed


_OTHER = Platform("the cluster")
_BOTTLEROCKET = Platform(
    "Bottlerocket",
    installs=False,
    changes=False,
    strategy="single",
    remedy="set settings.kubelet-device-plugins.nvidia.device-partitioning-strategy to mig and mig.profile to the layout in "
    "the user data of its node group, and replace the node",
)
_AUTO_MODE = Platform(
    "EKS Auto Mode", installs=False, changes=False, remedy="it does not support MIG: use a managed node group"
)
_AKS = Platform("AKS", changes=False)  # the remedy depends on the layout
_GKE = Platform(
    "GKE",
    installs=False,
    changes=False,
    strategy="single",
    remedy="create a node pool with --accelerator=...,gpu-partition-size=PROFILE",
)


class Settings(t.NamedTuple):
    """The variables for all nodes. The layout is None if MIG is not configured."""

    selected: bool  # whether the nodes were selected with labels
    strategy: str
    boards: t.Sequence[str] = ()
    layout: object = None
    sharing: object = None


class Found(t.NamedTuple):
    nodes: t.List[Data]  # name, boards, and the owner of MIG of each node on which charts are installed
    verified: t.List[str]  # nodes that match their layout, and cannot be changed
    problems: t.List[str]


def find(nodes: t.Iterable[Data], settings: Settings) -> Found:
    out = Found([], [], [])
    for node in sorted(nodes, key=name_of):
        boards = _boards(node)
        if not boards and not settings.selected and labels_of(node).get("nvidia.com/gpu.present") != "true":
            continue
        boards = list(settings.boards) or boards
        if not boards:
            out.problems.append(
                "node %s has the unknown instance type %s: set gpu_node_boards to the boards of its GPUs, or exclude the node "
                "with gpu_cluster_selector if it has none" % (name_of(node), labels_of(node).get(_TYPE))
            )
            continue
        problems = _problems(node, boards, settings)
        out.problems.extend("node %s: %s" % (name_of(node), problem) for problem in problems)
        on = platform(node)
        if on.installs:
            owner = "operator" if on.changes and settings.layout is not None else "host"
            out.nodes.append({"name": name_of(node), "boards": boards, "owner": owner})
        elif not problems:
            out.verified.append(name_of(node))
    if not (out.nodes or out.verified or out.problems):
        out.problems.append(
            "no node has a known instance type with GPUs or the label nvidia.com/gpu.present=true: set gpu_cluster_selector "
            "and gpu_node_boards"
            if not settings.selected
            else "no node matches gpu_cluster_selector"
        )
    return out


def platform(node: Data) -> Platform:
    labels = labels_of(node)
    image = str(((node.get("status") or {}).get("nodeInfo") or {}).get("osImage"))
    if labels.get("eks.amazonaws.com/compute-type") == "auto":
        return _AUTO_MODE
    if image.startswith("Bottlerocket"):
        return _BOTTLEROCKET
    if "kubernetes.azure.com/agentpool" in labels:
        return _AKS
    return _GKE if "cloud.google.com/gke-nodepool" in labels else _OTHER


def _boards(node: Data) -> list[str]:
    with _TYPES.open(encoding="utf-8") as file:
        types = yaml.safe_load(file)
    count, board = types.get(labels_of(node).get(_TYPE), (0, ""))
    return [board] * count


def _problems(node: Data, boards: t.Sequence[str], settings: Settings) -> list[str]:
    """Differences between the layout and a node whose layout cannot be changed. None before its device plugin runs."""
    on = platform(node)
    if settings.sharing and not on.installs:
        return [
            "gpu_cluster_sharing needs a chart of this collection, which is not installed on %s: remove it" % on.name
        ]
    if on.changes or settings.layout is None:
        return []
    host = _plugin_configs.in_effect(
        Host(name_of(node), boards=boards, layout=settings.layout, sharing=settings.sharing), node
    )
    if host is None:  # what it offers is multiplied by an unknown number
        return [] if on.installs else ["its GPUs are shared, so that its layout cannot be compared"]
    try:
        wanted = _cluster_nodes.expected(host, on.strategy or settings.strategy) or {}
        remedy = _node_pool(node, host) if on == _AKS else on.remedy
    except (MigError, Refusal) as error:
        return [str(error)]
    offered = _readiness.allocatable(node)
    if offered == wanted or (not offered and on.installs):
        return []
    return [
        "it advertises %s, and the layout needs %s. %s nodes keep the MIG layout with which they were created: %s"
        % (_readiness.listed(offered), _readiness.listed(wanted), on.name, remedy)
    ]


def _node_pool(node: Data, host: Host) -> str:
    """The command that creates a node pool of AKS with the layout. Raises Refusal if AKS does not offer it."""
    layouts = {tuple(held.profile for held in content.held or ()) for content in _cluster_nodes.contents(host).values()}
    (profiles, *different) = layouts
    for slices, count in _AKS_COUNTS.items():
        if len(set(profiles)) == 1 and len(profiles) == count and profiles[0].startswith("%dg." % slices):
            break
    else:
        slices = 0
    if different or (profiles and not slices):
        raise Refusal(
            "AKS offers only layouts in which all GPUs have the same instances: 7 with one slice, 3 with two, 2 with three, "
            "or 1 with four or seven. Change nvidia_mig_layout"
        )
    return (
        "create a node pool with az aks nodepool add --resource-group GROUP --cluster-name CLUSTER --name POOL "
        "--node-vm-size %s%s"
        % (labels_of(node).get(_TYPE), " --gpu-instance-profile MIG%dg" % slices if slices else "")
    )
