# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How many pods share each GPU or MIG device of a node, as the node and its labels show it."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from .._cluster import plugin_configs, readiness
from .._cluster.labels import PRODUCT
from .._cluster.nodes import Host, labels_of
from .._layout import resources, sharing

_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_REPLICAS, _STRATEGY = ".replicas", ".sharing-strategy"  # labels of GPU feature discovery, after a resource


def unshared_devices(host: Host, node: Data) -> dict[str, int] | None:
    """The GPUs and MIG devices that a node advertises, each counted once, by the resource without sharing.

    None if they are shared, and the node does not show by how many pods. Raises Unshareable.
    """
    configured = plugin_configs.host_as_shared(host, node)
    ours = None if configured is None else sharing.replicas(sharing.parse(configured.sharing))
    out: Counter[str] = Counter()
    for resource, count in readiness.allocatable(node).items():
        plain = resource.removesuffix(resources.SHARED)
        replicas = (ours or {}).get(resource) or _shown(labels_of(node), plain)
        if replicas is None:
            if ours is None or resource != plain or _is_shared(labels_of(node), plain):
                return None
            replicas = 1
        if count % replicas:  # the label or the resource is about to change
            return None
        out[plain] += count // replicas
    return dict(out)


def _shown(labels: t.Mapping[str, str], resource: str) -> int | None:
    """Pods per device; None if no label shows them. GPU feature discovery shows 0 where it does not know them."""
    for label in (_GKE_CLIENTS, resource + _REPLICAS):
        value = labels.get(label, "")
        if value.isdecimal() and int(value):
            return int(value)
    return None


def _is_shared(labels: t.Mapping[str, str], resource: str) -> bool:
    """Whether a label shows that devices are shared, without the number of pods."""
    shared = labels.get(resource + _STRATEGY, "none") != "none" or _GKE_CLIENTS in labels
    return shared or labels.get(PRODUCT, "").endswith("-SHARED")
