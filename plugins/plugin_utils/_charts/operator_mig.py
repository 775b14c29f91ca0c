# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan the ConfigMap and the node labels with which the operator's MIG manager applies layouts."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._cluster import mig_configs
from .._cluster import nodes as cluster_nodes
from .._cluster.labels import DEPLOY
from .._cluster.nodes import Host, labels_of, name_of
from .._common.refusal import Refusal
from .._drain import record

DEPLOY_MIG_MANAGER = DEPLOY + "mig-manager"
_AFTER_DRAIN = mig_configs.PREFIX + "drain-first"  # the operator keeps any value, and deploys nothing unless it is true


class Changes(t.NamedTuple):
    """Changes of labels, each with the keys ``node`` and ``labels``, and nodes that apply a failed configuration again."""

    labels: t.Sequence[Data] = []
    retry: t.Sequence[str] = []


class MigPlan(t.NamedTuple):
    """What is written for the MIG manager."""

    config_map: t.Optional[t.Mapping[str, str]] = None  # its data
    configs: t.Mapping[str, str] = {}  # names of configurations, by node
    now: Changes = Changes()  # before the chart is installed
    while_drained: t.Mapping[str, Changes] = {}  # later, by node
    removed: t.Sequence[Data] = []  # labels, after the chart has stopped the MIG manager


def label_problems(host: Host, node: Data) -> list[str]:
    """Why the layout of a host cannot be applied now."""
    labels = labels_of(node)
    config, state = labels.get(mig_configs.LABEL), labels.get(mig_configs.STATE)
    if host.layout is None or state not in mig_configs.APPLYING:
        return []
    try:
        if config == mig_configs.config_name(mig_configs.layout_entries(host)):
            return []
    except (MigError, Refusal):
        return []  # reported with the layout
    # An interruption could leave the former layout incomplete.
    return [
        "the MIG manager is applying %s on node %s (state %s): wait until it has finished, and run this again. If "
        "it is stuck, remove the state with kubectl label node %s %s-"
        % (config, name_of(node), state, name_of(node), mig_configs.STATE)
    ]


def without_layout(host: Host) -> list[str]:
    """Hosts without a layout: an empty default differs between chart releases, and the MIG manager runs on all nodes."""
    capable = any(gpu["mig"].get("capable") for gpu in host.gpus or () if gpu.get("index") is not None)
    if host.layout is not None or not capable:
        return []
    return [
        "nvidia_mig_owner is operator, but the host has no nvidia_mig_layout, so the operator could label its node "
        "all-disabled: set one, for example [{devices: all, mig_enabled: false}]"
    ]


def plan_removal(nodes: t.Iterable[Data]) -> MigPlan:
    """The plan if hosts own MIG."""
    changes: dict[str, dict[str, str | None]] = {}
    for node in nodes:
        late: dict[str, str | None] = (
            {DEPLOY_MIG_MANAGER: None} if labels_of(node).get(DEPLOY_MIG_MANAGER) == _AFTER_DRAIN else {}
        )
        changes[name_of(node)] = {**mig_configs.label_removal(labels_of(node)), **late}
    return MigPlan(removed=_labels(changes))


def plan_configurations(
    hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], existing: Data, drain: bool
) -> MigPlan:
    """The plan if the operator owns MIG. ``hosts`` are by the name of their node, and ``nodes`` all of the cluster.

    Raises Refusal.
    """
    entries = {
        node: mig_configs.layout_entries(host)
        for node, host in hosts.items()
        if host.layout is not None and cluster_nodes.gpus(host)
    }
    configs = {node: mig_configs.config_name(each) for node, each in entries.items()}
    (found,) = existing["resources"] or [None]
    labels = {labels_of(node).get(mig_configs.LABEL) for node in nodes.values()}
    config_map = mig_configs.config_map({configs[node]: each for node, each in entries.items()}, found, labels)
    changes = {node: _changes(nodes[node], name, drain) for node, name in sorted(configs.items())}
    return MigPlan(
        config_map=config_map,
        configs=configs,
        now=Changes(
            [each for now, _later in changes.values() for each in now.labels],
            [each for now, _later in changes.values() for each in now.retry],
        ),
        while_drained={node: later for node, (_now, later) in changes.items() if later is not None},
    )


def _changes(node: Data, config: str, drain: bool) -> tuple[Changes, Changes | None]:
    """The changes that give a node its configuration: now, and while it is drained; None if it need not be drained."""
    labels, name = labels_of(node), name_of(node)
    change = mig_configs.label_patch(labels, config)
    # The MIG manager applies a configuration when the label changes, or when it starts.
    retry = [name] if not change and labels.get(mig_configs.STATE) == "failed" else []
    start: dict[str, str | None] = (
        {DEPLOY_MIG_MANAGER: "true"} if labels.get(DEPLOY_MIG_MANAGER) == _AFTER_DRAIN else {}
    )
    if drain and change and mig_configs.LABEL not in labels:
        # The operator would label the node itself, so the label must precede the chart. Its MIG manager starts later.
        return Changes(_labels({name: {**change, DEPLOY_MIG_MANAGER: _AFTER_DRAIN}})), Changes(
            _labels({name: {DEPLOY_MIG_MANAGER: "true"}})
        )
    changes = Changes(_labels({name: {**change, **start}}), retry)
    if drain and (change or retry or start or record.read_record(node) is not None):
        return Changes(), changes
    return changes, None


def _labels(changes: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Data]:
    return [{"node": node, "labels": dict(change)} for node, change in sorted(changes.items()) if change]
