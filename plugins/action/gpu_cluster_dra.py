# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: check NVIDIA's DRA driver, and the devices that it publishes."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import owner
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data, Host, host_of, name_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import (
    Unreadable,
    message,
    unreachable,
    was_read,
)
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra, record
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

# Draining reads the claims.
_OBJECTS: tuple[Data, ...] = (
    {"kind": "Node"},
    {"kind": "DaemonSet", "api_version": "apps/v1"},
    dra.slices(),
    dra.CLAIMS,
)
_MISSING = "the cluster has no DRA driver of NVIDIA: install it, or set gpu_cluster_allocator to device_plugin"


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "check": {"type": "str", "choices": ["preflight", "verify"], "required": True},
        "may_be_missing": {"type": "bool", "default": False},
        "on_controller": {"type": "bool", "default": True},
    }

    def perform(self, variables: Data) -> Data:
        hostvars, names = variables["hostvars"], variables["ansible_play_hosts"]
        self._verifies = self._arguments["check"] == "verify"
        problems = inventory_variables.forged_by_host(hostvars, names)
        found = self._read()
        shared, warnings = self._unreadable(found)
        if not shared and not warnings:
            nodes, daemonsets, slices, _claims = (each["resources"] for each in found)
            installed = dra.is_installed(daemonsets, slices)
            shared = dra.dynamic_mig(daemonsets)
            if not installed:
                (shared if self._verifies else warnings).append(_MISSING)
            hosts = [host_of(name, hostvars[name]) for name in names]
            for host, own in self._of_nodes(hosts, nodes, slices if installed else None).items():
                problems[host] += own
        problems = {host: [*shared, *own] for host, own in problems.items()}
        return {"problems": problems, **({"warnings": warnings} if warnings else {})}

    def _read(self) -> list[Data]:
        """The results for _OBJECTS; if the cluster cannot be read, one that failed."""
        try:
            results = self._api.call("gpufleet.node.gpu_cluster_objects", objects=list(_OBJECTS))["results"]
        except Unreadable as error:
            return [{"msg": str(error)}]
        return t.cast("list[Data]", results)

    def _unreadable(self, found: t.Sequence[Data]) -> tuple[list[str], list[str]]:
        """Problems and warnings about objects that could not be read."""
        if "resources" in found[0]:
            results = zip((each["kind"] for each in _OBJECTS), found, strict=True)
            return [_unread(kind, each) for kind, each in results if not was_read(each)], []
        may_be_missing = self._arguments["may_be_missing"] and not self._verifies
        why = unreachable(found[0], may_be_missing, self._arguments["on_controller"])
        text = "the cluster cannot be read%s, so its DRA driver was not checked" % ("" if self._verifies else " yet")
        return ([why or text], []) if why or self._verifies else ([], [text])

    def _of_nodes(
        self, hosts: t.Iterable[Host], nodes: t.Iterable[Data], slices: t.Sequence[Data] | None
    ) -> dict[str, list[str]]:
        """Problems of the nodes, by host. ``slices`` are those of the DRA driver; None if it is not installed."""
        by_name = {name_of(each): each for each in nodes}
        known: dict[str, str] = {}
        problems: dict[str, list[str]] = {}
        for host in hosts:
            if host.gpus == []:  # a server of the cluster
                continue
            name, why = cluster_nodes.find(host, list(by_name))
            if name is None:
                problems[host.name] = [why] if self._verifies else []
                continue
            problems[host.name] = [*cluster_nodes.taken(name, known), *_others(by_name[name])]
            known[host.name] = name
            if self._verifies and slices is not None:
                problems[host.name] += _differences(host, by_name[name], slices)
        return problems


def _unread(kind: str, result: Data) -> str:
    if not result.get("api_found", True):
        return "the cluster does not have %ss in its API: the DRA driver needs Kubernetes 1.34 or later" % kind
    return "the cluster's %ss cannot be read: %s" % (kind, message(result))


def _others(node: Data) -> list[str]:
    """Other components that hand out the GPUs of a node, or change their layout."""
    advertised = readiness.allocatable(node)
    text = "a device plugin advertises %s on node %s, so that pods would get the same GPUs: uninstall it"
    out = [text % (readiness.listed(advertised), name_of(node))] if advertised else []
    return [*out, *owner.paused(node, "host")]


def _differences(host: Host, node: Data, slices: t.Sequence[Data]) -> list[str]:
    name = name_of(node)
    return [
        *readiness.node_problems(node),
        *record.interrupted(node),
        *dra.differences(host, name, slices),
        *dra.tainted(name, slices),
    ]
