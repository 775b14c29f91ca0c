# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The controllers of evicted pods, and whether as many of their pods are ready as before.

Their own status is read, because one of them may have pods on all nodes of a large cluster.
"""

from __future__ import annotations

import contextlib
import re
import typing as t

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.pods import controller_of, has_ended

# By version and kind. Others, such as those of operators for training jobs, have no common field for ready pods.
_KINDS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "Job"),
)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # of an object


class Workload(t.NamedTuple):
    """A controller of pods, and how many of its pods were ready."""

    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str
    ready: int = 0  # pods before the eviction

    def __str__(self) -> str:
        return "%s %s in namespace %s" % (self.kind, self.name, self.namespace)


def workload_of(*found: t.Any) -> Workload:
    """A workload from what a pod or a record says. Raises ValueError, TypeError and AttributeError.

    Whoever may create a pod can write any owner, and the names become the path of a request.
    """
    known = Workload(*found)
    if (known.api_version, known.kind) not in _KINDS or not all(map(_NAME.fullmatch, (known.namespace, known.name))):
        raise ValueError("not a controller of pods")
    if not (isinstance(known.uid, str) and isinstance(known.ready, int)):
        raise ValueError("not a controller of pods")
    return known


def workloads_of(evicted: t.Iterable[Data], recorded: t.Iterable[Workload] = ()) -> list[Workload]:
    """The controllers of the evicted pods, except of those that have ended, and those that are recorded already."""
    known = {each.uid for each in recorded}
    out = set()
    for pod in evicted:
        owner = controller_of(pod)
        fields = [owner.get(key) for key in ("apiVersion", "kind", "name", "uid")]
        # Other controllers, and owners with names that no object can have.
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            found = workload_of(pod["metadata"].get("namespace"), *fields)
            if found.uid not in known and not has_ended(pod):
                out.add(found)
    return sorted(out)


def objects_to_read(workloads: t.Iterable[Workload]) -> list[Data]:
    """What to read for the next two functions."""
    return [
        {"api_version": each.api_version, "kind": each.kind, "name": each.name, "namespace": each.namespace}
        for each in workloads
    ]


def counted(workloads: t.Sequence[Workload], found: t.Sequence[t.Sequence[Data]]) -> list[Workload]:
    """The workloads with ready pods, and how many they have now."""
    out = [each._replace(ready=_ready(item)) for each, item in _existing(workloads, found)]
    return [each for each in out if each.ready]


def degraded(workloads: t.Sequence[Workload], found: t.Sequence[t.Sequence[Data]]) -> list[str]:
    """The workloads that need more ready pods than they have. Not jobs, whose pods may wait for devices."""
    out = []
    for each, item in _existing(workloads, found):
        if each.kind != "Job" and _ready(item) < _needed(item):
            out.append("%s has %d of %d pods ready" % (each, _ready(item), _needed(item)))
    return out


def unready(workloads: t.Sequence[Workload], found: t.Sequence[t.Sequence[Data]]) -> list[Workload]:
    """The workloads with fewer ready pods than before, unless they need fewer now. With the current number."""
    return [
        each._replace(ready=_ready(item))
        for each, item in _existing(workloads, found)
        if _ready(item) < min(each.ready, _needed(item))
    ]


def pod_problems(workload: Workload, pods: t.Iterable[Data]) -> list[str]:
    """Why pods of a workload do not run."""
    return readiness.pod_problems([pod for pod in pods if controller_of(pod).get("uid") == workload.uid])


def _existing(
    workloads: t.Sequence[Workload], found: t.Sequence[t.Sequence[Data]]
) -> t.Iterator[tuple[Workload, Data]]:
    for each, items in zip(workloads, found):
        if items and items[0]["metadata"].get("uid") == each.uid:
            yield each, items[0]


def _ready(item: Data) -> int:
    status = item.get("status") or {}
    return int(status.get("readyReplicas") or status.get("ready") or 0)


def _needed(item: Data) -> int:
    """The pods of a finished job are not needed any more."""
    if item.get("kind") == "Job":
        return int((item.get("status") or {}).get("active") or 0)
    return int((item.get("spec") or {}).get("replicas") or 0)
