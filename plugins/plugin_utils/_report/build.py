# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Build a report from hosts and the cluster's view of them."""

from __future__ import annotations

import datetime
import typing as t

from ...module_utils._common.data import Data
from ...module_utils._common.printable import printable
from ...module_utils._common.text import cut
from . import cluster_view, data, drift, slices
from .cluster_view import View
from .data import ClusterReport, HostReport, Problem, Report
from .hosts import Read


def report(read: t.Mapping[str, Read], cluster: View | ClusterReport | None) -> Report:
    """A report as of now. The cluster is a ClusterReport if it could not be read, and None if none is configured."""
    nodes = cluster.nodes if isinstance(cluster, View) else {}
    of_cluster = cluster.problems if isinstance(cluster, View) else {}
    hosts = {}
    for name, each in read.items():
        host, problems = _of_node(each.report)
        hosts[name] = host._replace(node=nodes.get(name), problems=[*problems, *of_cluster.get(name, ())])
    for name, problem in drift.duplicates(hosts):
        hosts[name] = hosts[name]._replace(problems=[*hosts[name].problems, problem])
    return Report(
        created=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        hosts=hosts,
        cluster=cluster.cluster if isinstance(cluster, View) else cluster,
        collection=data.collection_version(),
    )


def _of_node(host: HostReport) -> tuple[HostReport, list[Problem]]:
    """The host and its problems. A node can return anything: what is no GPU makes it a host that cannot be read."""
    host = host._replace(**printable({"facts": host.facts, "toolkit": host.toolkit}))
    try:
        slices.of_host(host, None)
        return host, drift.of_host(host)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        text = "it returned something else than its GPUs and driver: %s" % cut(repr(error))
        return HostReport(text, desired=host.desired, boards=host.boards), [Problem("failed", text), *host.problems]


def cluster(
    read: t.Mapping[str, Read],
    objects: t.Sequence[t.Sequence[Data]],
    settings: cluster_view.Settings,
) -> View:
    """The view of the cluster from the objects that cluster_view.REQUESTED names."""
    nodes, pods = objects
    return cluster_view.of_cluster(nodes, pods, [each.host for each in read.values()], pod_uids(read), settings)


def pod_uids(read: t.Mapping[str, Read]) -> set[str]:
    """The UIDs of pods that have processes on GPUs."""
    return {
        str(process["pod_uid"])
        for each in read.values()
        for gpu in each.report.gpus or ()
        for process in gpu.get("processes") or ()
        if process.get("pod_uid")
    }
