# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The controllers of evicted pods, and whether as many of their pods are ready as before."""

from __future__ import annotations

import typing as t

from . import _readiness
from ._cluster_nodes import Data


class Workload(t.NamedTuple):
    namespace: str
    name: str  # with its kind, such as ReplicaSet train-5d59d67564
    uid: str
    ready: int  # pods before the eviction


def of(evicted: t.Iterable[Data], pods: t.Sequence[Data]) -> list[Workload]:
    """The controllers of the evicted pods. ``pods`` are all pods of their namespaces."""
    found: dict[str, Workload] = {}
    for pod in evicted:
        owner = _owner(pod)
        if owner and owner["uid"] not in found:
            name = "%s %s" % (owner["kind"], owner["name"])
            ready = sum(map(_readiness.is_ready, _pods_of(owner["uid"], pods)))
            found[owner["uid"]] = Workload(str(pod["metadata"].get("namespace")), name, owner["uid"], ready)
    return sorted(each for each in found.values() if each.ready)


def namespaces(evicted: t.Iterable[Data]) -> list[str]:
    """The namespaces of pods that have a controller."""
    return sorted({str(pod["metadata"].get("namespace")) for pod in evicted if _owner(pod)})


def unready(workloads: t.Iterable[Workload], pods: t.Sequence[Data]) -> list[str]:
    """The workloads with fewer ready pods than before, and why. Not those that need fewer pods now."""
    out = []
    for each in workloads:
        own = [pod for pod in _pods_of(each.uid, pods) if _active(pod)]
        ready = sum(map(_readiness.is_ready, own))
        if ready < min(each.ready, len(own)):
            reasons = _readiness.explained(own) or ["they are starting"]
            text = "%s in namespace %s has %d ready pods, and had %d before: %s"
            out.append(text % (each.name, each.namespace, ready, each.ready, "; ".join(reasons[:3])))
    return out


def _owner(pod: Data) -> Data | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller") and each.get("uid")), None)


def _pods_of(uid: str, pods: t.Iterable[Data]) -> list[Data]:
    return [pod for pod in pods if (_owner(pod) or {}).get("uid") == uid]


def _active(pod: Data) -> bool:
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not finished and not pod["metadata"].get("deletionTimestamp")
