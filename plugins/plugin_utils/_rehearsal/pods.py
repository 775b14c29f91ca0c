# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Pods of manifests, or as kubectl prints them, for which no node would have GPUs or MIG devices.

Looks at the GPUs and MIG devices that pods request, and at kubernetes.io/hostname of their nodeSelector. Nothing else
restricts them here: no other label, affinity, taint or quota, no processors and no memory. Pods with resource claims,
on nodes outside the rehearsal, or of objects of other kinds, are only listed.
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
from .._layout import resources as layout_resources

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
    others: list[str]  # objects of other kinds that may have pods with GPUs


def read(path: str) -> Pods:
    """The pods of a file. Raises Refusal."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        documents = [each for each in yaml.load_all(text, _LOADER) if each is not None]
        lists: set[int] = set()
        items = [each for document in documents for each in _items(document, lists)]
    except Exception as error:  # of YAML
        raise Refusal("rehearse_pods: %s cannot be read: %s" % (path, error)) from error
    if not documents:
        raise Refusal("rehearse_pods: %s has no objects: give manifests, or kubectl get pods -A -o json" % path)
    found = Pods([], [], [], [])
    for number, item in enumerate(items, 1):
        try:
            _add(item, found)
        except Refusal as error:
            raise Refusal("rehearse_pods: %s, object %d (%s): %s" % (path, number, short(item), error)) from None
        except Exception as error:  # values of other types
            raise Refusal(_MALFORMED % (path, number, short(item))) from error
    return found


def _items(document: t.Any, lists: set[int]) -> list[t.Any]:
    """The objects of a document, which may be a list, as kubectl prints it. Raises ValueError.

    ``lists`` identifies those that were read: aliases could repeat them without end.
    """
    if not isinstance(document, dict) or not str(document.get("kind")).endswith("List"):
        return [document]
    kind, items = str(document["kind"]).removesuffix("List") or "Pod", document.get("items")
    if not items:
        return []
    if not isinstance(items, list):
        return [items]
    if id(items) in lists:
        raise ValueError("it contains a list of objects twice: write each list once, without an alias of YAML")
    lists.add(id(items))
    typed = ({"kind": kind, **each} if isinstance(each, dict) else each for each in items)
    return [found for each in typed for found in _items(each, lists)]


def _add(item: Data, found: Pods) -> None:
    kind = str(item["kind"])
    metadata = item.get("metadata") or {}
    name = "%s/%s" % (metadata.get("namespace", "default"), metadata.get("name") or metadata.get("generateName"))
    name = name if kind == "Pod" else "%s %s" % (kind, name)
    count, spec = 1, item.get("spec") or {}
    if kind == "Kustomization":
        raise Refusal("it names other files: give the output of kubectl kustomize")
    if kind in _CONTROLLERS:
        field, way = _CONTROLLERS[kind]
        for step in way:
            spec = spec[step]
        count = _count(spec, field)
        spec = spec["template"].get("spec") or {}
    elif kind == "DaemonSet":
        spec = spec["template"].get("spec") or {}
    elif kind != "Pod":
        if _may_request({key: item[key] for key in item if key not in ("metadata", "status")}):
            found.others.append(name)
        return
    elif cluster_pods.has_ended(item):
        return
    if spec.get("resourceClaims"):
        found.claims.append(name)
    resources = cluster_pods.gpus_of({"spec": spec})
    if not resources:
        return
    if kind == "DaemonSet":
        found.daemon_sets.append(name)
        return
    node = str((spec.get("nodeSelector") or {}).get(HOSTNAME, ""))
    found.requested.append(Requested(name, resources, count, node, str(spec.get("nodeName") or "")))


def _count(spec: Data, field: str) -> int:
    """The number of pods. Raises Refusal."""
    value = spec.get(field)
    if value is None:
        return 1  # the default of the API
    if not str(value).isdecimal():
        raise Refusal("%s is %s: give a number of pods, 0 or more" % (field, short(value)))
    return int(value)


def _may_request(value: t.Any) -> bool:
    """Whether a GPU, a MIG device or a resource claim is requested anywhere in an object of unknown structure."""
    parts, known = [value], set()
    while parts:
        part = parts.pop()
        if id(part) in known or not isinstance(part, (dict, list)):
            continue
        known.add(id(part))  # aliases could repeat it without end
        if isinstance(part, dict):
            if any(key == "resourceClaims" or layout_resources.is_gpu(str(key)) for key in part):
                return True
            part = part.values()
        parts.extend(part)
    return False


def report(pods: Pods, before: Nodes, after: Nodes) -> list[str]:
    """Lines about the pods that no node could run after the change, and what was not looked at."""
    here = _by_name(after)
    requested = [pod for pod in pods.requested if not pod.current or pod.current in here]
    was, is_ = _place(requested, before), _place(requested, after)
    lines = [_line(pod, was, is_) for pod in requested if is_.left[pod]]
    total = sum(pod.count for pod in requested)
    lines = lines or ["all %d pods that request GPUs or MIG devices have a node" % total]
    elsewhere = ["%s on %s" % (pod.name, pod.current) for pod in pods.requested if pod not in requested]
    moved = ["%s on %s" % (pod.name, pod.current) for pod in requested if pod in is_.moved and pod not in was.moved]
    for title, names in (
        ("have no room on the node where they run, but on another", moved),
        ("not checked, because their nodes are not in the rehearsal", elsewhere),
        ("not checked, because of their resource claims", pods.claims),
        ("not checked, one pod for each node", pods.daemon_sets),
        ("not checked, because the rehearsal does not know how many pods these kinds have", pods.others),
    ):
        if names:
            lines.append("%s: %s" % (title, listed(names, ", ", _MAX_NAMED)))
    return lines


class _Placement(t.NamedTuple):
    fits: dict[Requested, bool]  # on an empty node
    left: dict[Requested, int]  # how many of each have no node
    moved: set[Requested]  # pods that run and have another node


def _line(pod: Requested, before: _Placement, after: _Placement) -> str:
    fits, left, left_before = after.fits[pod], after.left[pod], before.left[pod]
    wanted = ", ".join("%s: %d" % pair for pair in sorted(pod.resources.items()))
    wanted += ", on node %s" % pod.node if pod.node else ""
    number = "" if pod.count == 1 else ", %d of %d pods" % (left, pod.count)
    why = "no room is left beside the other pods" if fits else "no node advertises that"
    if left_before:
        why += ", as before the change" if fits == before.fits[pod] and left == left_before else ""
    return "%s (%s)%s: %s" % (pod.name, wanted, number, why)


def _by_name(nodes: t.Iterable[str]) -> dict[str, list[str]]:
    """The nodes of each name, full or short: inventory and cluster may use different ones."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in cluster_nodes.inventory_names(node):
            found.setdefault(name, []).append(node)
    return found


def _place(pods: t.Sequence[Requested], nodes: Nodes) -> _Placement:
    """Place pods that run on their nodes, and then the others, and those without room there, the largest first."""
    free = {name: Counter(resources) for name, resources in nodes.items()}
    by_name = _by_name(nodes)
    order = sorted(pods, key=lambda pod: -sum(pod.resources.values()))
    running = [pod for pod in order if pod.current]
    left = {pod: pod.count for pod in pods}

    def fill(pod: Requested, names: t.Iterable[str]) -> None:
        for name in names:
            while left[pod] and pod.resources <= free[name]:
                free[name] -= pod.resources
                left[pod] -= 1

    for pod in running:
        fill(pod, by_name.get(pod.current, ()))
    evicted = [pod for pod in running if left[pod]]
    fits = {}
    for pod in order:
        allowed = by_name.get(pod.node, []) if pod.node else list(nodes)
        fits[pod] = any(pod.resources <= nodes[name] for name in allowed)
        fill(pod, allowed)
    return _Placement(fits, left, {pod for pod in evicted if not left[pod]})
