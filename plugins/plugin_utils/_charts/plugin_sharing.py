# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan the ConfigMap and the node labels with which the device plugin shares GPUs."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, plugin_configs, readiness
from .._cluster.nodes import Host, labels_of, name_of
from .._drain import record
from .._layout import sharing as layout_sharing


def is_used(hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data]) -> bool:
    """Whether GPUs of any node are shared. ``hosts`` are by the name of their node, and ``nodes`` all of the cluster."""
    others = (node for node in nodes.values() if name_of(node) not in hosts)
    return any(host.sharing for host in hosts.values()) or any(
        mig_configs.is_ours(labels_of(node).get(plugin_configs.LABEL)) for node in others
    )


class SharingPlan(t.NamedTuple):
    """What is written for the device plugin. Changes of labels have the keys ``node`` and ``labels``."""

    config_map: t.Optional[t.Mapping[str, t.Optional[str]]]  # its data; None if no GPUs are shared
    labels: t.Sequence[Data]
    # By node. Otherwise, a pod that has a GPU for itself would have to share it.
    while_drained: t.Mapping[str, t.Sequence[Data]]


def plan_sharing(hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], existing: Data, drain: bool) -> SharingPlan:
    """``hosts`` are by the name of their node, and ``nodes`` all of the cluster. Raises Refusal."""
    shared = [host.sharing for host in hosts.values() if host.sharing]
    found = {labels_of(node).get(plugin_configs.LABEL) for node in nodes.values()}
    config_map = plugin_configs.config_map(shared, existing, found) if is_used(hosts, nodes) else None
    labels: list[Data] = []
    while_drained: dict[str, list[Data]] = {}
    for node, host in sorted(hosts.items()):
        change = plugin_configs.label_patch(labels_of(nodes[node]), host.sharing)
        changes = [{"node": node, "labels": change}] if change else []
        in_service = record.read_record(nodes[node]) is None
        if drain and (readiness.allocatable(nodes[node]) if in_service and change else not in_service):
            while_drained[node] = changes
        else:
            labels.extend(changes)
    return SharingPlan(config_map, labels, while_drained)


def sharing_problems(host: Host, node: Data) -> list[str]:
    """Why the sharing of a host cannot be applied."""
    found = labels_of(node).get(plugin_configs.LABEL)
    if not host.sharing or found is None or mig_configs.is_ours(found):
        return []
    return [
        "node %s has the label %s=%s, which someone else set: remove it, or %s"
        % (name_of(node), plugin_configs.LABEL, found, layout_sharing.VARIABLE)
    ]


def is_others(config: object) -> bool:
    """Whether chart values have configuration files of the user, not those of this module."""
    found = config if isinstance(config, dict) else {}
    return bool(found.get("map")) or found.get("name") not in (None, "", plugin_configs.CONFIG_MAP)


def overridden(config: object, where: str) -> list[str]:
    """A problem if the user's chart values replace the configuration files of this module."""
    found = config if isinstance(config, dict) else {}
    ours = {"name": plugin_configs.CONFIG_MAP, "default": plugin_configs.DEFAULT}
    if {**found, **ours} == found and not (found.get("map") or found.get("create")):
        return []
    return ["%s replaces %s: set only one of them" % (where, layout_sharing.VARIABLE)]
