# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan the ConfigMap and the node labels with which the operator's MIG manager applies layouts."""

from __future__ import annotations

import typing as t

from ...module_utils._mig.errors import MigError
from .._cluster import mig_configs
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Data, Host, labels_of, name_of
from .._common.refusal import Refusal
from .._drain import record as drain_record

MANAGER = "nvidia.com/gpu.deploy.mig-manager"
_LATER = mig_configs.PREFIX + "drain-first"  # the operator keeps any value, and deploys nothing unless it is true
NOTHING: Data = {"configs": {}, "labels": [], "retry": [], "removed": [], "pending": {}, "config_map": None}


def problems(host: Host, node: Data) -> list[str]:
    """Why the layout of a host cannot be applied now."""
    labels = labels_of(node)
    state = labels.get(mig_configs.STATE)
    try:
        if host.layout is None:
            return []
        current = labels.get(mig_configs.LABEL) == mig_configs.name(mig_configs.entries(host))
    except (MigError, Refusal):
        return []  # reported with the layout
    if not current and state in mig_configs.APPLYING:  # an interruption could leave it incomplete
        return [
            "the MIG manager is applying %s on node %s (state %s): wait until it has finished, and run this again. If "
            "it is stuck, remove the state with kubectl label node %s %s-"
            % (labels.get(mig_configs.LABEL), name_of(node), state, name_of(node), mig_configs.STATE)
        ]
    return []


def without_layout(host: Host) -> list[str]:
    """Hosts without a layout: an empty default differs between chart releases, and the MIG manager runs on all nodes."""
    capable = any(gpu["mig"].get("capable") for gpu in host.gpus or () if gpu.get("index") is not None)
    if host.layout is not None or not capable:
        return []
    return [
        "nvidia_mig_owner is operator, but the host has no nvidia_mig_layout, so the operator could label its node "
        "all-disabled: set one, for example [{devices: all, mig_enabled: false}]"
    ]


def removal(nodes: t.Iterable[Data]) -> Data:
    """The plan if hosts own MIG: the labels are removed, after the chart has stopped the MIG manager."""
    changes: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        late: dict[str, str | None] = {MANAGER: None} if labels_of(node).get(MANAGER) == _LATER else {}
        changes[name_of(node)] = {**(mig_configs.removal(labels_of(node)) or {}), **late}
    return {**NOTHING, "removed": _labels(changes)}


def plan(hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], existing: Data, drain: bool) -> Data:
    """The ConfigMap, and the labels to change. ``hosts`` are by the name of their node.

    ``pending`` has the labels that change later, while the node is drained, by host.
    """
    entries = {
        node: mig_configs.entries(host)
        for node, host in hosts.items()
        if host.layout is not None and cluster_nodes.gpus(host)
    }
    configs = {node: mig_configs.name(each) for node, each in entries.items()}
    resources = existing["resources"] or [None]
    out: Data = {**NOTHING, "configs": configs, "labels": [], "retry": [], "pending": {}}
    out["config_map"] = mig_configs.config_map({configs[node]: each for node, each in entries.items()}, resources[0])
    for node, name in sorted(configs.items()):
        labels = labels_of(nodes[node])
        change = mig_configs.patch(labels, name)
        # The MIG manager applies a configuration when the label changes, or when it starts.
        retry = [node] if not change and labels.get(mig_configs.STATE) == "failed" else []
        start: dict[str, str | None] = {MANAGER: "true"} if labels.get(MANAGER) == _LATER else {}
        if drain and change and mig_configs.LABEL not in labels:
            # The operator would label the node itself, so the label must precede the chart. Its MIG manager starts later.
            out["labels"].extend(_labels({node: {**change, MANAGER: _LATER}}))
            out["pending"][hosts[node].name] = {"labels": _labels({node: {MANAGER: "true"}}), "retry": []}
        elif drain and (change or retry or start or drain_record.record(nodes[node]) is not None):
            changes = {**(change or {}), **start}
            out["pending"][hosts[node].name] = {"labels": _labels({node: changes}), "retry": retry}
        else:
            out["labels"].extend(_labels({node: {**(change or {}), **start}}))
            out["retry"].extend(retry)
    return out


def _labels(changes: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[Data]:
    return [{"node": node, "labels": dict(change)} for node, change in sorted(changes.items()) if change]
