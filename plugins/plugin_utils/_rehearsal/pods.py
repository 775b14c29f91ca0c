# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Pods of manifests, or as kubectl prints them, for which no node would have GPUs or MIG devices.

Looks at the GPUs and MIG devices that pods request, and at kubernetes.io/hostname of their nodeSelector. Nothing else
restricts them here: no other label, affinity, taint or quota, no processors and no memory. Pods with resource claims,
or on nodes outside the rehearsal, are only listed.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections import Counter
from pathlib import Path

import yaml

from ...module_utils._common.data import Data
from ...module_utils._common.text import listed, short
from .._cluster import nodes as cluster_nodes
from .._cluster import pods as cluster_pods
from .._common.refusal import Refusal

HOSTNAME = "kubernetes.io/hostname"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, where PyYAML has it
# The fields of a controller with the number of its pods, and those on the way to its pod template.
_CONTROLLERS: t.Mapping[str, tuple[str, tuple[str, ...]]] = {
    "CronJob": ("parallelism", ("jobTemplate", "spec")),
    "Deployment": ("replicas", ()),
    "Job": ("parallelism", ()),
    "ReplicaSet": ("replicas", ()),
    "ReplicationController": ("replicas", ()),
    "StatefulSet": ("replicas", ()),
}
_MAX_NAMED = 10  # pods in a line
_MALFORMED = (
    "rehearse_pods: %s, object %d (%s) is no object of Kubernetes with a kind and its spec: give manifests, or "
    "kubectl get pods -A -o json"
)

Nodes = dict[str, Counter[str]]  # resources by node


@dataclasses.dataclass(eq=False)
class Requested:
    """Equal pods that request GPUs."""

    name: str
    resources: Counter[str]
    count: int = 1
    node: str = ""  # of the nodeSelector
    current: str = ""  # on which it runs


class Pods(t.NamedTuple):
    requested: list[Requested]
    claims: list[str]  # pods with resource claims
    daemon_sets: list[str]  # that request GPUs


def read(path: str) -> Pods:
    """The pods of a file. Raises Refusal."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        documents = [each for each in yaml.load_all(text, _LOADER) if each is not None]
        items = [each for document in documents for each in _items(document)]
    except Exception as error:  # of YAML, also of lists that contain themselves
        raise Refusal("rehearse_pods: %s cannot be read: %s" % (path, error)) from error
    if not documents:
        raise Refusal("rehearse_pods: %s has no objects: give manifests, or kubectl get pods -A -o json" % path)
    found = Pods([], [], [])
    for number, item in enumerate(items, 1):
        try:
            _add(item, found)
        except Exception as error:  # values of other types
            raise Refusal(_MALFORMED % (path, number, short(item))) from error
    return found


def _items(document: t.Any) -> list[t.Any]:
    """The objects of a document, which may be a list, as kubectl prints it."""
    if not isinstance(document, dict) or not str(document.get("kind")).endswith("List"):
        return [document]
    kind, items = str(document["kind"]).removesuffix("List") or "Pod", document.get("items") or []
    if not isinstance(items, list):
        return [items]
    typed = ({"kind": kind, **each} if isinstance(each, dict) else each for each in items)
    return [found for each in typed for found in _items(each)]


def _add(item: Data, found: Pods) -> None:
    kind = str(item["kind"])
    count, spec = 1, item.get("spec") or {}
    if kind in _CONTROLLERS:
        field, way = _CONTROLLERS[kind]
        for name in way:
            spec = spec[name]
        count = spec.get(field, 1)
        spec = spec["template"].get("spec") or {}
    elif kind == "DaemonSet":
        spec = spec["template"].get("spec") or {}
    elif kind != "Pod" or cluster_pods.has_ended(item):
        return
    metadata = item.get("metadata") or {}
    name = "%s/%s" % (metadata.get("namespace", "default"), metadata.get("name") or metadata.get("generateName"))
    name = name if kind == "Pod" else "%s %s" % (kind, name)
    if spec.get("resourceClaims"):
        found.claims.append(name)
    resources = cluster_pods.gpus_of({"spec": spec})
    if not resources:
        return
    if kind == "DaemonSet":
        found.daemon_sets.append(name)
        return
    node = str((spec.get("nodeSelector") or {}).get(HOSTNAME, ""))
    found.requested.append(Requested(name, resources, int(count), node, str(spec.get("nodeName") or "")))


def report(pods: Pods, before: Nodes, after: Nodes) -> list[str]:
    """Lines about the pods that no node could run after the change, and what was not looked at."""
    here = {each for name in after for each in cluster_nodes.inventory_names(name)}
    requested = [pod for pod in pods.requested if not pod.current or pod.current in here]
    fit_before, left_before = _place(requested, before)
    fits, left = _place(requested, after)
    lines = []
    for pod in requested:
        if left[pod]:
            lines.append(_line(pod, left[pod], left_before[pod], fits[pod], fit_before[pod]))
    total = sum(pod.count for pod in requested)
    lines = lines or ["all %d pods that request GPUs or MIG devices have a node" % total]
    elsewhere = ["%s on %s" % (pod.name, pod.current) for pod in pods.requested if pod not in requested]
    if elsewhere:
        lines.append(
            "not checked, because their nodes are not in the rehearsal: %s" % listed(elsewhere, ", ", _MAX_NAMED)
        )
    if pods.claims:
        lines.append("not checked, because of their resource claims: %s" % listed(pods.claims, ", ", _MAX_NAMED))
    if pods.daemon_sets:
        lines.append("not checked, one pod for each node: %s" % listed(pods.daemon_sets, ", ", _MAX_NAMED))
    return lines


def _line(pod: Requested, left: int, left_before: int, fits: bool, fit_before: bool) -> str:
    wanted = ", ".join("%s: %d" % pair for pair in sorted(pod.resources.items()))
    wanted += ", on node %s" % pod.node if pod.node else ""
    number = "" if pod.count == 1 else ", %d of %d pods" % (left, pod.count)
    why = "no room is left beside the other pods" if fits else "no node advertises that"
    if left_before:
        why += ", as before the change" if fits == fit_before and left == left_before else ""
    return "%s (%s)%s: %s" % (pod.name, wanted, number, why)


def _place(pods: t.Sequence[Requested], nodes: Nodes) -> tuple[dict[Requested, bool], dict[Requested, int]]:
    """Whether each pod fits on an empty node, and how many of each have none: those that run first, then large ones."""
    free = {name: Counter(resources) for name, resources in nodes.items()}
    fits, left = {}, {}
    order = sorted(pods, key=lambda pod: (not pod.current, -sum(pod.resources.values())))
    for pod in order:
        allowed = [name for name in free if pod.node in ("", name)]
        fits[pod] = any(pod.resources <= nodes[name] for name in allowed)
        left[pod] = pod.count
        for name in sorted(allowed, key=lambda name: name != pod.current):
            while left[pod] and pod.resources <= free[name]:
                free[name] -= pod.resources
                left[pod] -= 1
    return fits, left
