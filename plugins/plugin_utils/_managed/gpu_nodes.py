# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU nodes of managed clusters, which are known only through the API: their boards, and what changes their MIG layout."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._charts import gfd_labels
from .._cluster import nodes as cluster_nodes
from .._cluster import readiness
from .._cluster.labels import PRODUCT
from .._cluster.nodes import Host, labels_of, name_of
from .._common.refusal import Refusal
from .._drain import operands
from .._layout import boards as layout_boards
from .._layout import resources
from .._layout.layouts_on_gpus import Content
from . import instance_types, node_sharing, platforms
from .platforms import Platform

_GKE_PROFILE = "cloud.google.com/gke-gpu-partition-size"
_UNKNOWN_SHARING = (
    "its GPUs are shared, and the node does not show by how many pods, so that its layout cannot be compared: remove "
    "nvidia_mig_layout, or set gpu_cluster_selector to select only other nodes"
)
_NO_GPUS = (
    "it advertises no GPUs, so that its layout cannot be compared: check the driver and the device plugin of %s there, "
    "and run this again"
)


class NodeVariables(t.NamedTuple):
    """The variables for all nodes. The layout is None if MIG is not configured."""

    selected: bool  # whether the nodes were selected with labels
    strategy: str
    boards: t.Sequence[str] = ()
    layout: object = None
    sharing: object = None


class ManagedNodes(t.NamedTuple):
    """The nodes with GPUs, by what happens to them."""

    nodes: t.List[Data]  # name, boards, and the owner of MIG of each node on which charts are installed
    verified: t.List[str]  # nodes that match their layout, and cannot be changed
    problems: t.List[str]
    skipped: t.List[str]  # nodes that cannot be changed, and have no layout to compare them with


def find_nodes(nodes: t.Iterable[Data], variables: NodeVariables) -> ManagedNodes:
    """The nodes of a cluster that have GPUs, or that were selected, and their problems."""
    out = ManagedNodes([], [], [], [])
    for node in sorted(nodes, key=name_of):
        models = instance_types.gpu_models(node)
        if not variables.selected and not models and not instance_types.sign_of_gpus(node):
            continue
        boards = list(variables.boards) or models
        unsupported = _unsupported(node, boards)
        if unsupported:
            out.problems.append(unsupported)
            continue
        problems = _differences(node, boards, variables)
        out.problems.extend("node %s: %s" % (name_of(node), problem) for problem in problems)
        on = platforms.platform_of(node)
        if on.installs:
            owner = "operator" if on.changes and variables.layout is not None else "host"
            out.nodes.append({"name": name_of(node), "boards": boards, "owner": owner})
        elif not problems:
            (out.skipped if variables.layout is None else out.verified).append(name_of(node))
    if not any(out):
        out.problems.append(
            "no node has a known instance type with GPUs, advertises GPUs, or has a label that shows GPUs: set "
            "gpu_cluster_selector and gpu_node_boards"
            if not variables.selected
            else "no node matches gpu_cluster_selector"
        )
    return out


def unselected_nodes(nodes: t.Iterable[Data], selected: t.Iterable[Data]) -> list[str]:
    """The nodes with GPUs that are not selected, each with its instance type."""
    names = {name_of(node) for node in selected}
    others = [node for node in nodes if name_of(node) not in names]
    gpus = [node for node in others if instance_types.gpu_models(node) or instance_types.sign_of_gpus(node)]
    return sorted(
        "%s (%s)" % (name_of(node), instance_types.instance_type(node) or "no instance type") for node in gpus
    )


def _unsupported(node: Data, boards: t.Sequence[str]) -> str:
    """Why the GPUs of a selected node cannot be configured; empty if they can."""
    remedy = "gpu_cluster_selector to select only other nodes"
    if not boards:
        kind, sign = instance_types.instance_type(node), instance_types.sign_of_gpus(node)
        return "node %s has %s%s: set gpu_node_boards to the boards of its GPUs, or %s" % (
            name_of(node),
            "GPUs (%s) and " % sign if sign else "",
            "the unknown instance type %s" % kind if kind else "no instance type",
            remedy,
        )
    without = [model for model in instance_types.gpu_models(node) if model not in layout_boards.names()]
    if not without:
        return ""
    text = "node %s (%s) has GPUs of the model %s, which does not support MIG: set %s"
    return text % (name_of(node), instance_types.instance_type(node), without[0], remedy)


def _differences(node: Data, boards: t.Sequence[str], variables: NodeVariables) -> list[str]:
    """Differences between the layout and a node whose layout cannot be changed. None before its device plugin runs."""
    on = platforms.platform_of(node)
    if variables.sharing and not on.installs:
        return [
            "gpu_cluster_sharing needs a chart of this collection, which is not installed on %s: remove it" % on.name
        ]
    if on.changes or variables.layout is None:
        return []
    host = Host(name_of(node), boards=boards, layout=variables.layout, sharing=variables.sharing)
    try:
        profile = _profile(host, on)
        if profile and not on.partitioned:
            return ["%s does not support MIG: use a managed node group" % on.name]
        if profile and (on.strategy or variables.strategy) == "none":
            return ["with the strategy none, pods get whole GPUs, although MIG is enabled: use single or mixed"]
        return _of_layout(host, node, profile, variables.strategy)
    except (MigError, Refusal) as error:
        return [str(error)]


def _of_layout(host: Host, node: Data, profile: str, strategy: str) -> list[str]:
    """Differences between the layout and what the node advertises. Raises MigError and Refusal."""
    on = platforms.platform_of(node)
    # A former strategy applies until the chart has changed.
    strategy = on.strategy or _strategy_of(node) or strategy
    desired = cluster_nodes.expected_resources(host._replace(sharing=None), strategy) or {}
    devices = node_sharing.unshared_devices(host, node)
    offered = readiness.allocatable(node)
    if on.installs and (not offered or (profile and strategy == "none")):
        return []
    found = _partitioned(node, strategy)
    if devices == desired and found in (None, profile):
        return []
    if not devices and found in (None, profile):
        return [] if on.installs else [_UNKNOWN_SHARING if offered else _NO_GPUS % on.name]
    same = devices in (None, desired)
    once = ", each device counted once" if devices not in (None, offered) else ""
    has = readiness.resource_list(offered if devices is None else devices) + once + (_of(found) if same else "")
    needs = readiness.resource_list(desired) + (_of(profile) if same else "")
    text = "it advertises %s, and the layout needs %s. %s nodes keep the MIG layout with which they were created: %s"
    return [text % (has, needs, on.name, platforms.remedy(node, host.boards, profile))]


def _strategy_of(node: Data) -> str:
    """The strategy of the node's device plugin; empty if unknown. Only mixed advertises MIG devices by profile."""
    if any(name.startswith(resources.MIG) for name in readiness.allocatable(node)):
        return "mixed"
    return operands.plugin_strategy(node)


def _of(profile: str | None) -> str:
    return " with the profile %s" % profile if profile else " without MIG"


def _partitioned(node: Data, strategy: str) -> str | None:
    """The profile of a node's instances as its labels show it; empty if MIG is off, and None if they do not show it."""
    labels = labels_of(node)
    if platforms.platform_of(node) == platforms.GKE:
        return labels.get(_GKE_PROFILE, "")
    product = labels.get(PRODUCT)
    return gfd_labels.profile_of(product) if strategy == "single" and product else None


def _profile(host: Host, on: Platform) -> str:
    """The profile of the instances that fill each GPU; empty if MIG is off. Raises Refusal for other layouts."""
    found = {
        _full(content, host.boards[index], on) for index, content in sorted(cluster_nodes.gpu_contents(host).items())
    }
    if len(found) == 1 and None not in found:
        return str(found.pop())
    raise Refusal(
        "%s offers only layouts in which all GPUs have the same instances: %s. Change nvidia_mig_layout"
        % (on.name, on.offers)
    )


def _full(content: Content, board: str, on: Platform) -> str | None:
    """The profile of the instances that fill a GPU; empty if MIG is off, and None if the platform does not offer this."""
    if content.instances is None:
        return ""
    devices = resources.devices(content)
    (name, *different) = dict.fromkeys(devices) or [""]
    if different or not re.fullmatch(r"\d+g\.\d+gb", name):
        return None
    most = {row["name"]: row["max_instances"] for row in layout_boards.data(board)["profiles"]}[name]
    if on.counts:
        most = on.counts.get(int(name.partition("g")[0]))
    return name if len(devices) == most else None
