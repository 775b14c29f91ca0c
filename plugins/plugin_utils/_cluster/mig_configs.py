# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Configurations for the operator's MIG manager: a ConfigMap, and a label for each node."""

from __future__ import annotations

import hashlib
import json
import typing as t

import yaml

from ...module_utils._common.data import Data
from ...module_utils._mig import mig_parted
from .._common.refusal import Refusal
from .nodes import Host, layout_contents

CONFIG_MAP = "gpufleet-mig-configs"
KEY = "config.yaml"  # the only key that the MIG manager reads
PREFIX = "gpufleet-"
LABEL = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
APPLYING = ("pending", "rebooting")  # states in which the MIG manager is at work

_LIMIT = 1 << 20  # bytes of data in a ConfigMap

Entries = t.List[t.Dict[str, t.Any]]
_Pair = t.Tuple[yaml.Node, yaml.Node]  # the name of a configuration, and its content
T = t.TypeVar("T")


def layout_entries(host: Host) -> Entries:
    """The configuration for a host's layout, by GPU index. GPUs that the layout does not name are omitted."""
    return mig_parted.from_gpus({index: content.instances for index, content in layout_contents(host).items()})


def config_name(configuration: object) -> str:
    """A name that changes with the content, so that a node's state refers to exactly this configuration."""
    return PREFIX + hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:12]


def is_ours(label: str | None) -> bool:
    """Whether the value of a label is a name of this collection."""
    return label is not None and label.startswith(PREFIX)


def config_map(
    desired: t.Mapping[str, Entries], existing: Data | None, labels: t.Collection[str | None]
) -> dict[str, str]:
    """The data of the ConfigMap. Former configurations are kept as they are written. Raises Refusal.

    ``labels`` are the values of all nodes' labels.
    """
    try:
        pairs = {key.value: (key, value) for key, value in _as_yaml({**desired}).value}
        return fitting(CONFIG_MAP, _configurations(existing), pairs, labels, _data)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise Refusal(
            "the ConfigMap %s, which has configurations of other nodes, too, is not a file of mig-parted: correct its key "
            "%s, or delete it and run this for all nodes" % (CONFIG_MAP, KEY)
        ) from error


def fitting(
    config_map: str,
    former: t.Mapping[str, T],
    desired: t.Mapping[str, T],
    labels: t.Collection[str | None],
    data: t.Callable[[dict[str, T]], dict[str, str]],
) -> dict[str, str]:
    """The data of a ConfigMap with the desired configurations, and former ones: another run may be about to label a node.

    If they do not fit, only former ones that a label names are kept. Raises Refusal if these do not fit either.
    """
    for kept in (former, {name: each for name, each in former.items() if name in labels}):
        found = data({**kept, **desired})
        if sum(len(text.encode()) for text in found.values()) <= _LIMIT:
            return found
    raise Refusal(
        "the ConfigMap %s would exceed the limit of Kubernetes, 1 MiB, with only the configurations of this run and those "
        "that labels of nodes name: use the same configuration for more nodes" % config_map
    )


def _as_yaml(value: Data) -> yaml.MappingNode:
    representer = yaml.representer.SafeRepresenter(default_flow_style=None)  # type: ignore[arg-type]  # wrong stub
    return t.cast("yaml.MappingNode", representer.represent_data(value))


def _data(configurations: t.Mapping[str, _Pair]) -> dict[str, str]:
    document = _as_yaml({"mig-configs": {}, "version": mig_parted.VERSION})
    section = document.value[0][1]
    section.value, section.flow_style = [configurations[name] for name in sorted(configurations)], False
    return {KEY: yaml.serialize(document, Dumper=yaml.SafeDumper)}


def _configurations(existing: Data | None) -> dict[str, _Pair]:
    """The configurations in the ConfigMap, as nodes of YAML: constructing their values can take very long."""
    text = ((existing or {}).get("data") or {}).get(KEY)
    if not text:
        return {}
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, section in document.value if isinstance(document, yaml.MappingNode) else ():
        if key.value == "mig-configs" and isinstance(section, yaml.MappingNode):
            if all(isinstance(name, yaml.ScalarNode) for name, _content in section.value):
                return {name.value: (name, content) for name, content in section.value}
    raise ValueError


def label_patch(labels: t.Mapping[str, str], desired: str) -> dict[str, str | None]:
    """The changes to a node's labels; empty if current. Also removes the state, which refers to the old configuration."""
    return {} if labels.get(LABEL) == desired else {LABEL: desired, STATE: None}


def label_removal(labels: t.Mapping[str, str]) -> dict[str, str | None]:
    """The changes that remove the labels; empty if there are none."""
    return {LABEL: None, STATE: None} if LABEL in labels or STATE in labels else {}
