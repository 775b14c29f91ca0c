# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How a node of a cluster is taken out of service before its GPUs change, and returned to service.

An annotation of the node records what was changed, in the same write as the change itself: whether the node was
cordoned, the former values of labels, and by which run. A later run can therefore continue or return a node at any point.
"""

from __future__ import annotations

import json
import time
import typing as t

from ...module_utils._common.data import Data
from .._cluster import runs
from .._cluster.labels import DEPLOY, PAUSED, is_paused
from .._cluster.nodes import labels_of, name_of
from .._cluster.runs import Run
from .workloads import Workload, workload_of

RECORD = "gpufleet.node/out-of-service"
_RENEWAL = 300  # seconds after which a waiting run writes its record again


class Record(t.NamedTuple):
    """What has to be restored on a node."""

    cordoned: bool  # false: someone else had cordoned the node, and it remains so
    drained: bool = False  # whether all pods were evicted, so that its GPUs may have been changed
    labels: t.Mapping[str, str] = {}  # former values
    workloads: t.Sequence[Workload] = ()  # of the evicted pods
    run: Run = Run()  # that returns it to service

    def text(self) -> str:
        return json.dumps({**self._asdict(), "run": self.run._asdict()}, sort_keys=True)


def interrupted(node: Data) -> list[str]:
    """A problem if a run has taken a node out of service, and not returned it."""
    known = _readable(node)
    if known is None:
        return []
    return [
        "its node %s is out of service for a run of a playbook, %s. If that has ended, run the playbook again with "
        "gpu_cluster_drain set to true, which returns the node" % (name_of(node), known.run)
    ]


def commands_without_record(node: Data) -> str:
    """How to return a node whose record was removed after this run drained it; empty if someone has returned it."""
    return " && ".join(_steps(node, cordoned(node)))


def return_commands(node: Data) -> str:
    """The commands that return a node which a run has left out of service; empty if it is in service."""
    known = _readable(node)
    if known is None:
        return ""
    return " && ".join([*_steps(node, known.cordoned), "kubectl annotate node %s %s-" % (name_of(node), RECORD)])


def all_return_commands(nodes: t.Iterable[Data]) -> list[str]:
    """The commands that return each node which a run has left out of service."""
    return [commands for commands in map(return_commands, nodes) if commands]


def _steps(node: Data, uncordons: bool) -> list[str]:
    paused = sorted(name for name, value in labels_of(node).items() if name.startswith(DEPLOY) and value == PAUSED)
    labels = " ".join("%s=true" % each for each in paused)
    relabel = ["kubectl label node %s --overwrite %s" % (name_of(node), labels)] if paused else []
    return [*relabel, *(["kubectl uncordon %s" % name_of(node)] if uncordons else [])]


def _readable(node: Data) -> Record | None:
    """The record; of a damaged one, only that the node is out of service."""
    try:
        return read_record(node)
    except ValueError:
        return Record(cordoned=True)


class OtherRun(ValueError):
    """Another run has taken the node out of service."""


def read_record(node: t.Mapping[str, t.Any]) -> Record | None:
    """What a run of this collection changed; None if the node is in service. Raises ValueError."""
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Record(
            bool(found["cordoned"]),
            bool(found["drained"]),
            _labels_of(found["labels"]),
            [workload_of(*each) for each in found["workloads"]],
            _run_of(found["run"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError(
            "the annotation %s of node %s is damaged: %.200r. Remove it, set the labels %s* that are %s to true, and "
            "uncordon the node if it should be in service" % (RECORD, name_of(node), text, DEPLOY, PAUSED)
        ) from None


def _run_of(found: Data) -> Run:
    return Run(str(found["place"]), int(found["pid"]), str(found["started"]), int(found["written"]))


def _labels_of(found: t.Any) -> dict[str, str]:
    """Raises ValueError or AttributeError: whoever may patch the node can write anything."""
    if not all(isinstance(each, str) for pair in found.items() for each in pair):
        raise ValueError("not labels")
    return dict(found)


def require_available(node: Data, run: Run, takeover: int) -> Record | None:
    """The record of a node that this run may change. Raises OtherRun if another run may still be changing the node.

    A run on another controller is taken to have ended so many seconds after its last change.
    """
    known = read_record(node)
    if known is None or runs.is_same(known.run, run) or runs.record_expired(known.run, takeover):
        return known
    raise OtherRun(
        "node %s is out of service for another run, %s, which changed it %d seconds ago. Wait until that run has ended; "
        "if it was on another controller and has ended, set gpu_cluster_drain_takeover to 0"
        % (name_of(node), known.run, max(0, run.written - known.run.written))
    )


def require_own(node: Data, run: Run) -> Record:
    """The record of a node that this run has cordoned. Raises OtherRun if another run has continued with the node since."""
    known = read_record(node)
    if known is None or not runs.is_same(known.run, run):
        raise OtherRun("another run has taken over node %s, and may have returned it to service" % name_of(node))
    return known


def renew(node: Data, run: Run) -> Data:
    """The patch that renews the time of a node's record, and its cordon; empty if both are current. Raises OtherRun."""
    known = require_own(node, run)
    is_current = time.time() - known.run.written < _RENEWAL
    return {} if cordoned(node) and is_current else _cordoning_patch(node, known)


def cordoned(node: Data) -> bool:
    """Whether no pods are scheduled on a node."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def service_state(node: Data) -> str:
    """Whether a node is in service after uncordon(), as a sentence without a full stop."""
    return "The node remains cordoned, as it was before" if cordoned(node) else "The node is in service"


def cordon(node: Data, run: Run, workloads: t.Sequence[Workload] = ()) -> Data:
    """The patch that cordons a node for a run; empty if the run has done that."""
    known = read_record(node) or Record(cordoned=False)
    uids = {each.uid for each in known.workloads}
    new = [each for each in workloads if each.uid not in uids]
    if runs.is_same(known.run, run) and cordoned(node) and not new:
        return {}
    return _cordoning_patch(node, known._replace(run=run, workloads=[*known.workloads, *new]))


def pause(node: Data, run: Run, operands: t.Iterable[str]) -> Data:
    """The patch that records that a node is drained, and pauses operands of the GPU operator; empty if that is done.

    Raises OtherRun.
    """
    known = require_own(node, run)
    labels = labels_of(node)
    found = {DEPLOY + name: labels.get(DEPLOY + name, "false") for name in operands}
    names = [name for name, value in found.items() if value != "false" and not is_paused(value)]
    if known.drained and not names and cordoned(node):
        return {}
    former = {**known.labels, **{name: labels[name] for name in names}}
    return _cordoning_patch(node, known._replace(drained=True, labels=former), dict.fromkeys(names, PAUSED))


def resume(node: Data, run: Run) -> Data:
    """The patch that restores the labels; empty if none were changed. The node stays cordoned."""
    known = read_record(node)
    if known is None or not known.labels:
        return {}
    return _patch(known._replace(labels={}, run=run), _former(node, known))


def uncordon(node: Data) -> Data:
    """The patch that returns a node to service, restores all labels and removes the record; empty without a record."""
    known = read_record(node)
    if known is None:
        return {}
    metadata: Data = {"annotations": {RECORD: None}}
    if _former(node, known):
        metadata["labels"] = _former(node, known)
    return {"metadata": metadata, **({"spec": {"unschedulable": False}} if known.cordoned else {})}


def _former(node: Data, known: Record) -> Data:
    """A label that has another value now was changed by someone else."""
    labels = labels_of(node)
    own = {name: value for name, value in known.labels.items() if name.startswith(DEPLOY)}
    return {name: value for name, value in own.items() if labels.get(name) == PAUSED}


def _cordoning_patch(node: Data, new: Record, labels: t.Mapping[str, str] | None = None) -> Data:
    """The patch with a new record, which also cordons the node if it is not."""
    if cordoned(node):
        return _patch(new, labels)
    return {**_patch(new._replace(cordoned=True), labels), "spec": {"unschedulable": True}}


def _patch(new: Record, labels: t.Mapping[str, str] | None = None) -> Data:
    new = new._replace(run=new.run._replace(written=int(time.time())))
    return {"metadata": {"annotations": {RECORD: new.text()}, **({"labels": dict(labels)} if labels else {})}}
