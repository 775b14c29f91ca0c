# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Variables that contradict gpu_cluster_allocator: dra."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import listed
from ...module_utils._mig.errors import MigError
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host
from .._common.refusal import Refusal
from .._common.truth import is_true
from .dra_devices import ALLOCATOR

_CHART_VERSIONS = ("gpu_operator_version", "device_plugin_version")


def variable_problems(host: Host, variables: t.Mapping[str, t.Any]) -> list[str]:
    """Variables of a host that contradict gpu_cluster_allocator."""
    if variables.get("gpu_cluster_allocator") != ALLOCATOR:
        return []
    out = [
        "gpu_cluster_allocator is dra, but %s installs a device plugin, which would hand out the same GPUs: remove it"
        % name
        for name in _CHART_VERSIONS
        if name in variables
    ]
    if is_true(variables.get("gpu_cluster_managed")):
        out.append(
            "gpu_cluster_allocator is dra, which managed_cluster does not support: it has no access to the hosts"
        )
    if variables.get("nvidia_mig_owner", "host") != "host":
        out.append("gpu_cluster_allocator is dra, so nvidia_mig_owner must be host: the DRA driver has no MIG manager")
    if variables.get("gpu_cluster_sharing"):
        out.append("gpu_cluster_sharing configures the device plugin, but gpu_cluster_allocator is dra: remove it")
    if not is_true(variables.get("gpu_cluster_drain")):
        out.append(
            "gpu_cluster_allocator is dra, so gpu_cluster_drain must be true: pods keep claims of MIG devices that a "
            "change removes"
        )
    return [*out, *_of_layout(host)]


def _of_layout(host: Host) -> list[str]:
    try:
        known = cluster_nodes.gpu_contents(host) if host.layout is not None and cluster_nodes.gpus(host) else {}
    except (MigError, Refusal):
        return []  # reported with the layout
    split: dict[str, dict[str, None]] = {}  # the GPUs, by profile
    for content in known.values():
        for instance in content.instances or ():
            if any(size != instance.slices for size in instance.compute_instances):
                split.setdefault(instance.profile, {})[content.label] = None
    return [
        "%s: gpu_cluster_allocator is dra, and the DRA driver does not start if a compute instance does not use its whole "
        "GPU instance: use %s" % (listed([*labels], ", ", 16), profile)
        for profile, labels in split.items()
    ]
