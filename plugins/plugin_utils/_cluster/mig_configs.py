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

from ...module_utils._mig import mig_parted
from .nodes import Host, layout_contents

CONFIG_MAP = "gpufleet-mig-configs"
KEY = "config.yaml"  # the only key that the MIG manager reads
PREFIX = "gpufleet-"
LABEL = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
APPLYING = ("pending", "rebooting")  # states in which the MIG manager is at work

_MAX_DOCUMENT = 100000  # characters; a configuration has hundreds

Entries = t.List[t.Dict[str, t.Any]]


def layout_entries(host: Host) -> Entries:
    """The configuration for a host's layout, by GPU index. GPUs that the layout does not name are omitted."""
    return mig_parted.from_gpus({index: content.instances for index, content in layout_contents(host).items()})


def config_name(configuration: object) -> str:
    """A name that changes with the content, so that a node's state refers to exactly this configuration."""
    return PREFIX + hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:12]


def is_ours(label: str | None) -> bool:
    """Whether the value of a label is a name of this collection."""
    return label is not None and label.startswith(PREFIX)


def config_map(desired: t.Mapping[str, Entries], existing: object) -> dict[str, str]:
    """The data of the ConfigMap. Former configurations are kept: another run may be about to label a node with one."""
    try:
        return _data({**_configurations(existing), **desired})
    except RecursionError:  # to write a mapping needs more of the stack than to read it
        return _data(desired)


def _data(configurations: t.Mapping[str, t.Any]) -> dict[str, str]:
    document = {"version": mig_parted.VERSION, "mig-configs": configurations}
    return {KEY: yaml.safe_dump(document, sort_keys=True, default_flow_style=None)}


class _Loader(yaml.SafeLoader):
    def flatten_mapping(self, node: object) -> None:
        """Merge no mappings: a short text can contain very many. Constructing the key then fails."""


def _configurations(existing: object) -> dict[str, t.Any]:
    """The configurations in our ConfigMap, which may have been edited."""
    data = existing.get("data") if isinstance(existing, dict) else None
    try:
        text = (data or {}).get(KEY) or ""
        document = yaml.load(text, Loader=_Loader) if len(text) <= _MAX_DOCUMENT else None
    except (yaml.YAMLError, ArithmeticError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return {}
    found = document.get("mig-configs") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def label_patch(labels: t.Mapping[str, str], desired: str) -> dict[str, str | None]:
    """The changes to a node's labels; empty if current. Also removes the state, which refers to the old configuration."""
    return {} if labels.get(LABEL) == desired else {LABEL: desired, STATE: None}


def label_removal(labels: t.Mapping[str, str]) -> dict[str, str | None]:
    """The changes that remove the labels; empty if there are none."""
    return {LABEL: None, STATE: None} if LABEL in labels or STATE in labels else {}
