# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Problems of NVIDIA's DRA driver in a cluster, and of the devices that it publishes."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import nodes as cluster_nodes
from .._cluster import readiness
from .._cluster.nodes import Host, name_of
from .._cluster.responses import message, unreachable, was_read
from . import dra_devices, operands, record

# What is read for the check. Draining reads the claims.
OBJECTS: tuple[Data, ...] = (
    {"kind": "Node"},
    {"kind": "DaemonSet", "api_version": "apps/v1"},
    dra_devices.slices(),
    dra_devices.CLAIMS,
)
_UNCHECKED = "the cluster cannot be read%s, so its DRA driver was not checked"
_MISSING = "the cluster has no DRA driver of NVIDIA: install it, or set gpu_cluster_allocator to device_plugin"


class DraOptions(t.NamedTuple):
    """What the check requires of the cluster."""

    verifies: bool  # whether the nodes must have what the variables describe
    may_be_missing: bool
    on_controller: bool  # whether the client runs on the controller


class DraProblems(t.NamedTuple):
    """Problems and warnings, each a sentence without a full stop."""

    shared: t.List[str]  # problems of the cluster
    of_hosts: t.Mapping[str, t.List[str]]  # problems of their nodes, by host
    warnings: t.List[str]


def check_driver(results: t.Sequence[Data], hosts: t.Sequence[Host], options: DraOptions) -> DraProblems:
    """``results`` are those for OBJECTS; if the cluster cannot be read, one that failed."""
    if "resources" not in results[0]:
        return _unreachable(results[0], options)
    unread = [_unread(each["kind"], found) for each, found in zip(OBJECTS, results, strict=True) if not was_read(found)]
    if unread:
        return DraProblems(unread, {}, [])
    nodes, daemonsets, slices, _claims = (each["resources"] for each in results)
    installed = dra_devices.is_installed(daemonsets, slices)
    missing = [] if installed else [_MISSING]
    return DraProblems(
        [*dra_devices.dynamic_mig(daemonsets), *(missing if options.verifies else [])],
        _of_hosts(hosts, nodes, slices if installed else None, options),
        [] if options.verifies else missing,
    )


def _unreachable(result: Data, options: DraOptions) -> DraProblems:
    why = unreachable(result, options.may_be_missing and not options.verifies, options.on_controller)
    if why or options.verifies:
        return DraProblems([why or _UNCHECKED % ""], {}, [])
    return DraProblems([], {}, [_UNCHECKED % " yet"])


def _of_hosts(
    hosts: t.Sequence[Host], nodes: t.Iterable[Data], slices: t.Sequence[Data] | None, options: DraOptions
) -> dict[str, list[str]]:
    """Problems of the nodes, by host. ``slices`` are those of the DRA driver; None if it is not installed."""
    by_name = {name_of(each): each for each in nodes}
    found, problems = cluster_nodes.nodes_of_hosts(hosts, sorted(by_name))
    for host in hosts:
        if host.name in found:
            node = by_name[found[host.name]]
            problems[host.name] += _others(node)
            if options.verifies and slices is not None:
                problems[host.name] += _differences(host, node, slices)
        elif not options.verifies:  # the host may become a node later
            problems.pop(host.name, None)
    return problems


def _unread(kind: str, result: Data) -> str:
    if not result.get("api_found", True):
        return "the cluster does not have %ss in its API: the DRA driver needs Kubernetes 1.34 or later" % kind
    return "the cluster's %ss cannot be read: %s" % (kind, message(result))


def _others(node: Data) -> list[str]:
    """Other components that hand out the GPUs of a node, or change their layout."""
    advertised = readiness.allocatable(node)
    text = "a device plugin advertises %s on node %s, so that pods would get the same GPUs: uninstall it"
    out = [text % (readiness.resource_list(advertised), name_of(node))] if advertised else []
    return [*out, *operands.paused_by_others(node, "host")]


def _differences(host: Host, node: Data, slices: t.Sequence[Data]) -> list[str]:
    name = name_of(node)
    return [
        *readiness.node_problems(node),
        *record.interrupted(node),
        *dra_devices.differences(host, name, slices),
        *dra_devices.tainted(name, slices),
    ]
