# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The objects and the labels of nodes that are removed when a chart is uninstalled."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, plugin_configs
from .._cluster.labels import DEPLOY, PRESENT, is_paused
from .._cluster.nodes import labels_of, name_of
from . import inputs, operator_mig
from .inputs import Cluster, Installation
from .objects import is_ours

Labels = t.Dict[str, t.Dict[str, t.Optional[str]]]  # new values by node; None removes a label

# The fields of Cluster with objects that roles create, in the order in which they are removed.
_CREATED = ("helm_charts", "config_map", "plugin_config_map", "runtime_class", "namespace")


class Removal(t.NamedTuple):
    """What an uninstallation removes."""

    uses_helm: bool  # whether helm uninstalls the chart
    objects: t.List[Data]  # to remove
    leaves_labels: bool  # whether labels of the chart remain on nodes after that


def objects_to_read(installation: Installation) -> dict[str, Data]:
    """What is read for the removal, by the field of Cluster."""
    requested = inputs.objects_to_read(installation)
    return {field: requested[field] for field in _CREATED}


def plan_removal(installation: Installation, cluster: Cluster) -> Removal:
    """Objects of other owners are kept. Removing a HelmChart uninstalls the chart."""
    found = [item for field in _CREATED for item in getattr(cluster, field)["resources"]]
    return Removal(
        uses_helm=inputs.installation_method(installation, cluster) == "helm",
        objects=list(filter(is_ours, found)),
        leaves_labels=installation.chart.labels_nodes,
    )


def own_labels(nodes: t.Iterable[Data]) -> Labels:
    """The changes that remove the labels of this collection."""
    states = {mig_configs.LABEL: [mig_configs.STATE]}
    out: Labels = {}
    for node in nodes:
        for name in (mig_configs.LABEL, plugin_configs.LABEL, operator_mig.DEPLOY_MIG_MANAGER):
            if mig_configs.is_ours(labels_of(node).get(name)):
                out.setdefault(name_of(node), {}).update(dict.fromkeys([name, *states.get(name, [])]))
    return out


def operator_labels(nodes: t.Iterable[Data]) -> Labels:
    """The changes that remove what only the GPU operator writes. It leaves these labels when it is uninstalled.

    A value such as false is a user's, who keeps a component from a node.
    """
    out: Labels = {}
    for node in nodes:
        for name, value in labels_of(node).items():
            deployed = name.startswith(DEPLOY) and (value == "true" or is_paused(value))
            if name == PRESENT or deployed:
                out.setdefault(name_of(node), {})[name] = None
    return out
