# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The cluster's view of the hosts' nodes: readiness, resources, pods, and who has taken a node out of service."""

from __future__ import annotations

import datetime
import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._cluster import mig_configs, readiness
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host, labels_of, name_of, node_of
from .._cluster.pods import gpus_of, has_ended, pod_of
from .._common.refusal import Refusal
from .._drain import operands, record
from .data import ClusterReport, Problem

REQUESTED: t.Sequence[Data] = (
    {"kind": "Node"},
    {"kind": "Pod", "field_selectors": ["status.phase!=Succeeded", "status.phase!=Failed"]},
)
_SHOWN_LABELS = ("nvidia.com/gpu.product", "nvidia.com/mig.strategy", mig_configs.LABEL, mig_configs.STATE)


class View(t.NamedTuple):
    """The report of the cluster; and by host, the node and the problems."""

    cluster: ClusterReport
    nodes: t.Mapping[str, str]
    problems: t.Mapping[str, t.Sequence[Problem]]


class Settings(t.NamedTuple):
    strategy: str = "mixed"  # of a node whose labels do not show it
    resources: bool = True  # whether a device plugin advertises the GPUs, and not the DRA driver


def of_cluster(
    nodes: t.Sequence[Data],
    pods: t.Sequence[Data],
    hosts: t.Sequence[Host],
    processes: t.Collection[str],
    settings: Settings,
) -> View:
    """The view. ``processes`` are the UIDs of pods that have processes on GPUs."""
    by_name = {name_of(node): node for node in nodes}
    found, missing = cluster_nodes.nodes_of_hosts(hosts, list(by_name))
    for host in hosts:  # of those without GPUs, which need not be nodes, only nodes that advertise some
        name, _reason = cluster_nodes.find(host, list(by_name)) if host.gpus == [] else (None, "")
        if name is not None and readiness.allocatable(by_name[name]):
            found.setdefault(host.name, name)
    on_node: dict[str, list[Data]] = {}
    for pod in pods:
        if node_of(pod) and not has_ended(pod):
            on_node.setdefault(str(node_of(pod)), []).append(pod)
    problems = {host: [Problem("cluster", text) for text in texts] for host, texts in missing.items()}
    shown: dict[str, Data] = {}
    for host in hosts:
        name = found.get(host.name)
        if name is not None:
            shown[name] = _node(by_name[name], on_node.get(name, ()), processes)
            strategy = operands.plugin_strategy(by_name[name], on_node.get(name, ())) or settings.strategy
            expected, unknown = _expected(host, strategy, settings)
            shown[name].update(host=host.name, strategy=strategy, expected=expected, expected_unknown=unknown)
            problems[host.name] = [*problems.get(host.name, ()), *_problems(by_name[name], shown[name])]
    for name, node in by_name.items():
        if name not in shown and (readiness.allocatable(node) or labels_of(node).get("nvidia.com/gpu.present")):
            shown[name] = {**_node(node, on_node.get(name, ()), processes), "host": None}
    return View(ClusterReport(dict(sorted(shown.items()))), found, problems)


def _node(node: Data, pods: t.Iterable[Data], processes: t.Collection[str]) -> Data:
    requested: Counter[str] = Counter()
    listed, claims = [], 0
    for pod in pods:
        gpus = {name: count for name, count in gpus_of(pod).items() if count}
        requested.update(gpus)
        claims += bool((pod.get("spec") or {}).get("resourceClaims"))
        identity = pod_of(pod)
        if gpus or identity.uid in processes:
            listed.append({**identity._asdict(), "gpus": gpus})
    return {
        "ready": readiness.is_ready(node),
        "cordoned": record.cordoned(node),
        "out_of_service": _out_of_service(node),
        "allocatable": readiness.allocatable(node),
        "requested": dict(sorted(requested.items())),
        "pods_with_claims": claims,  # whose devices are unknown here
        "pods": listed,
        "labels": {name: labels_of(node)[name] for name in _SHOWN_LABELS if name in labels_of(node)},
        "strategy": None,  # of MIG
        "expected": None,
        "expected_unknown": None,
    }


def _out_of_service(node: Data) -> Data | None:
    """By whom, and since when; None if the node is in service."""
    try:
        known = record.read_record(node)
    except ValueError as error:
        return {"by": "unknown", "since": None, "problem": str(error)}
    if known is not None:
        when = datetime.datetime.fromtimestamp(max(0, min(known.run.written, 2**32)), datetime.timezone.utc)
        since = when.strftime("%Y-%m-%dT%H:%M:%SZ") if known.run.written else None
        return {"by": "a run of this collection, %s" % (known.run,), "since": since, "problem": None}
    return {"by": "someone else, who cordoned it", "since": None, "problem": None} if record.cordoned(node) else None


def _expected(host: Host, strategy: str, settings: Settings) -> tuple[dict[str, int] | None, str | None]:
    """The resources that the node should advertise, or why they are unknown."""
    if not settings.resources:
        return None, "the DRA driver hands out the GPUs"
    try:
        found = cluster_nodes.expected_resources(host, strategy)
    except (MigError, Refusal) as error:
        return None, str(error)
    return found, None if found is not None else "the GPUs of the node are unknown"


def _problems(node: Data, shown: Data) -> list[Problem]:
    found = []
    service = shown["out_of_service"]
    if service is not None:
        since = ", since %s" % service["since"] if service["since"] else ""
        text = service["problem"] or "its node is out of service by %s%s" % (service["by"], since)
        found.append(Problem("service", text))
    if not shown["ready"]:
        found.append(Problem("cluster", "its node is not ready"))
    if shown["expected"] is not None and shown["expected"] != shown["allocatable"]:
        offered, due = (readiness.resource_list(shown[key]) for key in ("allocatable", "expected"))
        text = "its node advertises %s, should advertise %s with the MIG strategy %s" % (
            offered,
            due,
            shown["strategy"],
        )
        found.append(Problem("cluster", text))
    if shown["labels"].get(mig_configs.STATE) == "failed":
        text = "the MIG manager could not apply %s" % shown["labels"].get(mig_configs.LABEL)
        found.append(Problem("cluster", text))
    return found
