# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Change the labels of nodes, and restart the MIG managers that read them."""

from __future__ import annotations

import dataclasses
import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, readiness
from .._cluster.nodes import labels_of, name_of, node_of
from .._cluster.pods import Pod, is_terminating, pod_of
from .._cluster.progress import Waiting
from .._cluster.responses import Unreadable
from .._common.result import TaskResult
from .._drain import record
from .._drain.node_guard import NodeGuard
from .removal import Labels


class LabelRequest(t.NamedTuple):
    """Which labels of nodes change, and what has to happen before."""

    changes: Labels
    retry: t.Sequence[str] = ()  # nodes on which the MIG manager applies a failed configuration again
    managers: str = ""  # the namespace of the MIG managers; empty if none reads these labels
    drained: bool = False  # whether this run must have drained the nodes


@dataclasses.dataclass
class Labelled(TaskResult):
    """The result, with the difference of each node."""

    diff: list[Data] = dataclasses.field(default_factory=list)

    def of_task(self) -> Data:
        return {**super().of_task(), **({"diff": self.diff} if self.diff else {})}


def change_labels(guard: NodeGuard, request: LabelRequest, check_mode: bool) -> Labelled:
    """Change labels: the state of a failed configuration first, then restart the MIG managers, and the others last."""
    result = Labelled()
    try:
        _change(guard, request, check_mode, result)
    except (Unreadable, ValueError) as error:
        result.problem = str(error)
    return result


def _change(guard: NodeGuard, request: LabelRequest, check_mode: bool, result: Labelled) -> None:
    retried: Labels = {name: {mig_configs.STATE: None} for name in request.retry}
    both = [*request.changes, *retried]
    changes = {name: {**retried.get(name, {}), **request.changes.get(name, {})} for name in both}
    result.changed = bool(changes)
    if not changes:
        return
    names = list(changes)
    nodes, pods = guard.progress.result("reading the nodes", lambda: guard.api.nodes(names, *_managers(request, names)))
    result.diff = [_diff(nodes[name], each) for name, each in changes.items()]
    if check_mode:
        return
    nodes = {**nodes, **_label(guard, request, nodes, retried)}
    guard.api.restart(_outdated(request, pods), guard.progress)
    _wait_for_end(guard, request)
    _label(guard, request, nodes, request.changes)


def _managers(request: LabelRequest, names: t.Sequence[str]) -> list[Data]:
    """The request for the MIG managers of these nodes; with one node, only its pods are read."""
    if not request.managers:
        return []
    where = ["spec.nodeName=" + names[0]] if len(names) == 1 else []
    selected = {"label_selectors": ["app=" + readiness.MIG_MANAGER], "field_selectors": where}
    return [{"kind": "Pod", "namespace": request.managers, **selected}]


def _outdated(request: LabelRequest, managers: t.Iterable[Data]) -> list[Pod]:
    """The MIG managers to restart: those that apply a configuration afterwards.

    A running one sees a new ConfigMap with a delay, and does not retry a failed configuration. Where the label is
    removed, one that starts would apply it once more, and write the state again.
    """
    applying = {node for node, labels in request.changes.items() if labels.get(mig_configs.LABEL)}
    applying.update(request.retry)
    return [pod_of(pod) for pod in managers if node_of(pod) in applying]


def _wait_for_end(guard: NodeGuard, request: LabelRequest) -> None:
    """Wait until the chart has stopped the MIG managers whose label is removed. Those of a node that is down do not end."""
    names = [name for name, labels in request.changes.items() if labels.get(mig_configs.LABEL, "") is None]
    requested = _managers(request, names) if names else []
    if not requested:
        return

    def running() -> tuple[list[Data], list[str]]:
        pods = [pod for found in guard.api.read(*requested) for pod in found]
        left = [each for each in pods if node_of(each) in names and not is_terminating(each)]
        return left, ["the MIG manager still runs on node %s" % node_of(each) for each in left]

    try:
        guard.progress.until_empty("stopping MIG managers", running)
    except Waiting as error:
        raise Unreadable(
            "%s, although the chart has disabled it. Its labels were not removed: find out why its pod does not end, and "
            "run this again" % error
        ) from None


def _label(guard: NodeGuard, request: LabelRequest, nodes: t.Mapping[str, Data], changes: Labels) -> dict[str, Data]:
    """The nodes after the change. Fails if another run has taken one of them out of service, or returned it."""

    def make(node: Data) -> Data:
        if request.drained:
            record.require_own(node, guard.run)
        return {"metadata": {"labels": changes[name_of(node)]}}

    return guard.change_all({name: nodes[name] for name in changes}, make)


def _diff(node: Data, labels: t.Mapping[str, str | None]) -> Data:
    before = {label: value for label, value in labels_of(node).items() if label in labels}
    after = {label: value for label, value in labels.items() if value is not None}
    return {"before_header": name_of(node), "after_header": name_of(node), "before": before, "after": after}
