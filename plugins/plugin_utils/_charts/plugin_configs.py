# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Configuration files of the device plugin: a ConfigMap, and a label for each node whose GPUs are shared."""

from __future__ import annotations

import json
import typing as t

import yaml

from .._cluster import mig_configs, readiness
from .._cluster.nodes import Data, Host, labels_of, name_of
from .._drain import record
from .._layout import sharing as layout_sharing

CONFIG_MAP = "gpufleet-device-plugin-configs"
LABEL = "nvidia.com/device-plugin.config"
# For nodes without the label. The only configuration of a ConfigMap would otherwise apply to all nodes.
DEFAULT = "default"


def name(sharing: object) -> str:
    """A name that changes with the content, because a device plugin reads its configuration when the label changes."""
    return mig_configs.name(sharing)


def used(hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data]) -> bool:
    """Whether GPUs of any node are shared. ``hosts`` are by the name of their node, and ``nodes`` all of the cluster."""
    others = (node for node in nodes.values() if name_of(node) not in hosts)
    return any(host.sharing for host in hosts.values()) or any(
        mig_configs.is_ours(labels_of(node).get(LABEL)) for node in others
    )


class SharingPlan(t.NamedTuple):
    """What is written for the device plugin. Changes of labels have the keys ``node`` and ``labels``."""

    config_map: t.Optional[t.Mapping[str, str]]  # its data; None if no GPUs are shared
    labels: t.Sequence[Data]
    # While the node is drained, by node: a pod that has a GPU for itself would otherwise have to share it.
    pending: t.Mapping[str, t.Sequence[Data]]


def plan(hosts: t.Mapping[str, Host], nodes: t.Mapping[str, Data], existing: Data, drain: bool) -> SharingPlan:
    """``hosts`` are by the name of their node, and ``nodes`` all of the cluster."""
    config_map = _config_map(hosts, existing) if used(hosts, nodes) else None
    labels: list[Data] = []
    pending: dict[str, list[Data]] = {}
    for node, host in sorted(hosts.items()):
        change = _patch(labels_of(nodes[node]), host.sharing)
        changes = [{"node": node, "labels": change}] if change else []
        in_service = record.read(nodes[node]) is None
        if drain and (readiness.allocatable(nodes[node]) if in_service and change else not in_service):
            pending[node] = changes
        else:
            labels.extend(changes)
    return SharingPlan(config_map, labels, pending)


def _config_map(hosts: t.Mapping[str, Host], existing: Data) -> dict[str, str]:
    """Former configurations are kept: another run may be about to label a node with one."""
    former: Data = (existing["resources"] or [{}])[0].get("data") or {}
    wanted = {name(host.sharing): _text(host.sharing) for host in hosts.values() if host.sharing}
    return {**former, DEFAULT: _text({}), **wanted}


def problems(host: Host, node: Data) -> list[str]:
    """Why the sharing of a host cannot be applied."""
    found = labels_of(node).get(LABEL)
    if not host.sharing or found is None or mig_configs.is_ours(found):
        return []
    return [
        "node %s has the label %s=%s, which someone else set: remove it, or %s"
        % (name_of(node), LABEL, found, layout_sharing.VARIABLE)
    ]


def _text(sharing: object) -> str:
    # Ansible's own types of variables cannot be written as YAML.
    document = {"version": "v1", **({"sharing": json.loads(json.dumps(sharing))} if sharing else {})}
    return yaml.safe_dump(document, sort_keys=True, default_flow_style=False)


def _patch(labels: t.Mapping[str, str], sharing: object) -> dict[str, str | None]:
    """The change to a node's labels; empty if current."""
    found = labels.get(LABEL)
    if sharing:
        return {} if found == name(sharing) else {LABEL: name(sharing)}
    return {LABEL: None} if mig_configs.is_ours(found) else {}


def in_effect(host: Host, node: Data, pods: t.Iterable[Data] = ()) -> Host | None:
    """The host with the sharing that its node has now; None if that is not the one in its variables.

    ``pods`` are those on the node. If they use a ConfigMap of someone else, its default configuration may share GPUs.
    """
    found = labels_of(node).get(LABEL)
    if found is None:
        return None if any(map(_has_other_default, pods)) else host._replace(sharing=None)
    return host if host.sharing and found == name(host.sharing) else None


def _has_other_default(pod: Data) -> bool:
    """Whether a pod, for example of the device plugin, selects its configuration from a ConfigMap of someone else."""
    maps = {(volume.get("configMap") or {}).get("name") for volume in pod["spec"].get("volumes") or ()}
    # In both charts, an init container reads the label, if the chart has a ConfigMap.
    containers = pod["spec"].get("initContainers") or ()
    variables = [variable for container in containers for variable in container.get("env") or ()]
    return CONFIG_MAP not in maps and any(each.get("value") == LABEL for each in variables)


def is_others(config: object) -> bool:
    """Whether chart values have configuration files of the user, not those of this module."""
    found = config if isinstance(config, dict) else {}
    return bool(found.get("map")) or found.get("name") not in (None, "", CONFIG_MAP)


def overridden(config: object, where: str) -> list[str]:
    """A problem if the user's chart values replace the configuration files of this module."""
    found = config if isinstance(config, dict) else {}
    if (
        found.get("name") == CONFIG_MAP
        and found.get("default") == DEFAULT
        and not (found.get("map") or found.get("create"))
    ):
        return []
    return ["%s replaces %s: set only one of them" % (where, layout_sharing.VARIABLE)]
