# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU nodes of managed clusters, which are known only through the API: their boards, and what changes their MIG layout."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ..module_utils._mig.errors import MigError
from . import _boards, _cluster_nodes, _drain, _gpu_pods, _plugin_configs, _readiness, _resources
from ._cluster_nodes import Data, Host, labels_of, name_of
from ._content import Content
from ._refusal import Refusal

_TYPE = "node.kubernetes.io/instance-type"
_TYPES = Path(__file__).with_name("instance_types.yml")
_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AKS_COUNTS = {1: 7, 2: 3, 3: 2, 4: 1, 7: 1}  # instances of a GPU by their compute slices


class Platform(t.NamedTuple):
    name: str
    installs: bool = True  # whether charts are installed on its nodes
    changes: bool = True  # whether the MIG manager may change the layout of its nodes
    strategy: str = ""  # of its own device plugin; empty if charts are installed
    offers: str = "as many of one profile as fit"  # the instances of a GPU
    partitioned: str = ""  # how to create nodes whose GPUs have instances of a profile; empty if there is no MIG
    whole: str = ""  # how to create nodes without MIG


_OTHER = Platform("the cluster")
_BOTTLEROCKET = Platform(
    "Bottlerocket",
    installs=False,
    changes=False,
    strategy="single",
    partitioned="set settings.kubelet-device-plugins.nvidia.device-partitioning-strategy to mig and mig.profile to %(profile)s "
    "in the user data of its node group, and replace the node",
    whole="remove device-partitioning-strategy from the user data of its node group, and replace the node",
)
_AUTO_MODE = Platform("EKS Auto Mode", installs=False, changes=False, strategy="mixed", whole="replace the node")
_NODE_POOL = (
    "create a node pool with az aks nodepool add --resource-group GROUP --cluster-name CLUSTER --name POOL "
    "--node-count COUNT --node-vm-size %(type)s"
)
_AKS = Platform(
    "AKS",
    changes=False,
    offers="7 with one slice, 3 with two, 2 with three, or 1 with four or seven",
    partitioned=_NODE_POOL + " --gpu-instance-profile MIG%(slices)sg",
    whole=_NODE_POOL,
)
_GKE = Platform(
    "GKE",
    installs=False,
    changes=False,
    strategy="single",
    partitioned="create a node pool with --accelerator=...,gpu-partition-size=%(profile)s",
    whole="create a node pool without gpu-partition-size",
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
    skipped: t.List[str]  # nodes that cannot be changed, and have no layout to compare them with


def find(nodes: t.Iterable[Data], settings: Settings) -> Found:
    out = Found([], [], [], [])
    for node in sorted(nodes, key=name_of):
        boards = _of_type(node)
        if not boards and not settings.selected and labels_of(node).get("nvidia.com/gpu.present") != "true":
            continue
        boards = list(settings.boards) or boards
        if not boards:
            out.problems.append(
                "node %s has the unknown instance type %s: set gpu_node_boards to the boards of its GPUs, or gpu_cluster_selector "
                "to select only other nodes" % (name_of(node), labels_of(node).get(_TYPE))
            )
            continue
        problems = _problems(node, boards, settings)
        out.problems.extend("node %s: %s" % (name_of(node), problem) for problem in problems)
        on = platform(node)
        if on.installs:
            owner = "operator" if on.changes and settings.layout is not None else "host"
            out.nodes.append({"name": name_of(node), "boards": boards, "owner": owner})
        elif not problems:
            (out.skipped if settings.layout is None else out.verified).append(name_of(node))
    if not any(out):
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


def _of_type(node: Data) -> list[str]:
    with _TYPES.open(encoding="utf-8") as file:
        types = yaml_load(file)
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
    host = Host(name_of(node), boards=boards, layout=settings.layout, sharing=settings.sharing)
    try:
        profile = _profile(host, on)
        if profile and not on.partitioned:
            return ["%s does not support MIG: use a managed node group" % on.name]
        strategy = on.strategy or settings.strategy
        if profile and strategy == "none":
            return ["with the strategy none, pods get whole GPUs, although MIG is enabled: use single or mixed"]
        shared = _plugin_configs.in_effect(host, node)
        if shared is None:  # what it offers is multiplied by an unknown number
            return [] if on.installs else ["its GPUs are shared, so that its layout cannot be compared"]
        # A former strategy applies until the chart has changed.
        strategy = on.strategy or _drain.strategy(node) or strategy
        wanted = _cluster_nodes.expected(shared, strategy) or {}
    except (MigError, Refusal) as error:
        return [str(error)]
    wanted = {name: count * int(labels_of(node).get(_CLIENTS, 1)) for name, count in wanted.items()}
    offered = _readiness.allocatable(node)
    if on.installs and (not offered or (profile and strategy == "none")):
        return []
    found = _partitioned(node, strategy)
    if offered == wanted and found in (None, profile):
        return []
    remedy = (on.partitioned if profile else on.whole) % {
        "profile": profile,
        "slices": profile.partition("g")[0],
        "type": labels_of(node).get(_TYPE),
    }
    return [
        "it advertises %s%s, and the layout needs %s%s. %s nodes keep the MIG layout with which they were created: %s"
        % (
            *(_readiness.listed(offered), _of(found) if offered == wanted else ""),
            *(_readiness.listed(wanted), _of(profile) if offered == wanted else ""),
            *(on.name, remedy),
        )
    ]


def _of(profile: str | None) -> str:
    return " with the profile %s" % profile if profile else " without MIG"


def _partitioned(node: Data, strategy: str) -> str | None:
    """The profile of a node's instances as its labels show it; empty if MIG is off, and None if they do not show it."""
    labels = labels_of(node)
    if platform(node) == _GKE:
        return labels.get(_PARTITION, "")
    product = labels.get(_gpu_pods.PRODUCT)
    return _gpu_pods.profile_of(product) if strategy == "single" and product else None


def _profile(host: Host, on: Platform) -> str:
    """The profile of the instances that fill each GPU; empty if MIG is off. Raises Refusal for other layouts."""
    found = {_full(content, host.boards[index], on) for index, content in sorted(_cluster_nodes.contents(host).items())}
    if len(found) == 1 and None not in found:
        return str(found.pop())
    raise Refusal(
        "%s offers only layouts in which all GPUs have the same instances: %s. Change nvidia_mig_layout"
        % (on.name, on.offers)
    )


def _full(content: Content, board: str, on: Platform) -> str | None:
    """The profile of the instances that fill a GPU; empty if MIG is off, and None if the platform does not offer this."""
    if content.held is None:
        return ""
    devices = _resources.devices(content)
    (name, *different) = dict.fromkeys(devices) or [""]
    if different or not re.fullmatch(r"\d+g\.\d+gb", name):
        return None
    most = {row["name"]: row["max_instances"] for row in _boards.data(board)["profiles"]}[name]
    if on == _AKS:
        most = _AKS_COUNTS.get(int(name.partition("g")[0]))
    return name if len(devices) == most else None
