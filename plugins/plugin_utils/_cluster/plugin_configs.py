# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Configurations for the device plugin: a ConfigMap, and a label for each node whose GPUs are shared."""

from __future__ import annotations

import json
import typing as t

import yaml

from ...module_utils._common.data import Data
from . import mig_configs
from .nodes import Host, labels_of

CONFIG_MAP = "gpufleet-device-plugin-configs"
LABEL = "nvidia.com/device-plugin.config"
# For nodes without the label. The only configuration of a ConfigMap would otherwise apply to all nodes.
DEFAULT = "default"


def config_map(shared: t.Iterable[object], existing: Data, labels: t.Collection[str | None]) -> dict[str, str | None]:
    """The data of the ConfigMap, where null removes a key. ``labels`` are the values of all nodes' labels."""
    former: dict[str, str] = (existing["resources"] or [{}])[0].get("data") or {}
    desired = {DEFAULT: _text({}), **{mig_configs.config_name(sharing): _text(sharing) for sharing in shared}}
    return {**dict.fromkeys(former), **mig_configs.fitting(CONFIG_MAP, former, desired, labels, dict)}


def _text(sharing: object) -> str:
    # Ansible's own types of variables cannot be written as YAML.
    document = {"version": "v1", **({"sharing": json.loads(json.dumps(sharing))} if sharing else {})}
    return yaml.safe_dump(document, sort_keys=True, default_flow_style=False)


def label_patch(labels: t.Mapping[str, str], sharing: object) -> dict[str, str | None]:
    """The change to a node's labels; empty if current."""
    found = labels.get(LABEL)
    if sharing:
        desired = mig_configs.config_name(sharing)  # a device plugin reads its configuration when the label changes
        return {} if found == desired else {LABEL: desired}
    return {LABEL: None} if mig_configs.is_ours(found) else {}


def host_as_shared(host: Host, node: Data, pods: t.Iterable[Data] = ()) -> Host | None:
    """The host with the sharing that its node has now; None if that is not the one in its variables.

    ``pods`` are those on the node. If they use a ConfigMap of someone else, its default configuration may share GPUs.
    """
    found = labels_of(node).get(LABEL)
    if found is None:
        return None if any(map(_has_other_default, pods)) else host._replace(sharing=None)
    return host if host.sharing and found == mig_configs.config_name(host.sharing) else None


def _has_other_default(pod: Data) -> bool:
    """Whether a pod, for example of the device plugin, selects its configuration from a ConfigMap of someone else."""
    maps = {(volume.get("configMap") or {}).get("name") for volume in pod["spec"].get("volumes") or ()}
    # In both charts, an init container reads the label, if the chart has a ConfigMap.
    containers = pod["spec"].get("initContainers") or ()
    variables = [variable for container in containers for variable in container.get("env") or ()]
    return CONFIG_MAP not in maps and any(each.get("value") == LABEL for each in variables)
