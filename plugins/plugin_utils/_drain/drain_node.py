# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Take the node of a host out of service before its GPUs change: cordon, evict, pause."""

from __future__ import annotations

import dataclasses
import typing as t

from ...module_utils._common.data import Data
from .._cluster import nodes as cluster_nodes
from .._cluster import runs
from .._cluster.api import Reading
from .._cluster.nodes import Host, labels_of, name_of
from .._cluster.pods import Pod, pod_of
from .._cluster.progress import Waiting
from .._cluster.responses import Unreadable
from .._common.result import TaskResult
from . import dra_devices, evictions, operands, record, workloads
from .evictions import DeviceChange, EvictionOptions
from .node_guard import NodeGuard
from .record import Record
from .workloads import Workload


class DrainOptions(t.NamedTuple):
    """How the node is drained."""

    change: DeviceChange
    evictions: EvictionOptions
    grace_period: int = -1  # seconds; -1: that of each pod
    machine_id: str = ""  # the base64-encoded file of the host; empty if it was not read
    uses_dra: bool = False
    by_operator: bool = False  # whether the MIG manager changes the GPUs
    wait_for_pods: bool = True
    check_mode: bool = False


@dataclasses.dataclass
class Drained(TaskResult):
    """The result, with the evicted pods."""

    evicted: list[str] = dataclasses.field(default_factory=list)  # pods, also if others could not be evicted


class _Failed(Exception):
    """The node cannot be taken out of service."""


def drain(guard: NodeGuard, host: Host, options: DrainOptions) -> Drained:
    """Drain the node of a host. In check mode, show what would be evicted.

    The record is written with the cordon, before the first eviction, and again before the first component is paused, so
    that any run can continue. If this fails, the node returns to service, unless its GPUs may have been changed.
    """
    result = Drained()
    try:
        reading = guard.progress.result("reading the node of %s" % host.name, lambda: guard.api.host_reading(host))
        known = guard.require_available(reading.node)
        try:
            _Drain(guard, host, options, result).perform(reading, known)
        except (_Failed, Unreadable) as error:
            raise _Failed(
                "%s. %s" % (error, _return_to_service(guard, reading.node, known, options.check_mode))
            ) from None
    except (_Failed, Unreadable, ValueError) as error:
        result.problem = "%s: %s" % (host.name, error)
    return result


class _Drain:
    """The steps, which complete the result. They raise _Failed, Unreadable, and OtherRun."""

    def __init__(self, guard: NodeGuard, host: Host, options: DrainOptions, result: Drained) -> None:
        self.guard, self.host, self.options, self.result = guard, host, options, result

    def perform(self, reading: Reading, known: Record | None) -> None:
        guard, name = self.guard, name_of(reading.node)
        if known is not None and not runs.is_same(known.run, guard.run):
            text = "An earlier run has left node %s out of service: this run continues, and returns it"
            guard.progress.show(text % name)
        machine_id = self.options.machine_id
        different = cluster_nodes.other_hostname(self.host) or cluster_nodes.other_machine(reading.node, machine_id)
        if different:
            raise _Failed(different)
        pods = self._planned(reading)
        self._warn_of_staying(reading.pods)
        changed = known is None or not record.cordoned(reading.node) or bool(pods)
        if self.options.check_mode:
            self.result.changed = changed
            self._preview(name, pods)
        else:
            node = self._cordon(reading.node, pods)
            self.result.changed = changed
            self._empty(name, node)

    def _empty(self, name: str, node: Data) -> None:
        """Evict the pods of the cordoned node, then pause components."""
        guard = self.guard
        # A run that is killed, or interrupted from the keyboard, can show nothing.
        ours = record.require_own(node, guard.run).cordoned
        notice = "until this run returns it" if ours else "and remains cordoned, as it was before"
        guard.progress.show("Node %s is out of service %s. If the run is interrupted, run it again" % (name, notice))
        # Other pods may have started before the node was cordoned.
        reading = guard.progress.result("reading node %s" % name, lambda: guard.api.reading(name))
        node = self._cordon(reading.node, self._planned(reading))
        reading = self._until_empty(name, Reading(node, reading.pods), "is not drained", self._evict)
        for group in operands.components_to_pause(self.options.by_operator, self.options.uses_dra):
            reading = self._pause(reading, group)

    def _planned(self, reading: Reading) -> list[Data]:
        """The pods to evict."""
        title = "planning to drain %s" % name_of(reading.node)
        return self.guard.progress.result(title, lambda: self._to_evict(reading))

    def _to_evict(self, reading: Reading) -> list[Data]:
        name, change, options = name_of(reading.node), self.options.change, self.options.evictions
        dynamic = dra_devices.dynamic_mig(reading.pods)
        if dynamic:
            raise _Failed("; ".join(dynamic))
        if self.options.uses_dra and options.pods != "all":
            claims, slices = self.guard.api.read(dra_devices.CLAIMS, dra_devices.slices(name))
            change = change._replace(allocated=dra_devices.allocated(self.host, name, claims, slices))
        pods, problems = evictions.pods_to_evict(reading.pods, options, change)
        if problems:
            raise _Failed("node %s cannot be drained: %s" % (name, "; ".join(problems)))
        return pods

    def _warn_of_staying(self, pods: list[Data]) -> None:
        staying = evictions.pods_that_stay(pods, self.options.change)
        if staying:
            text = "%s: pods of DaemonSets and static pods stay on the node, and may lose their GPUs or MIG devices: %s"
            self.result.warnings.append(text % (self.host.name, ", ".join(map(str, staying))))

    def _preview(self, name: str, pods: list[Data]) -> None:
        """Show which pods would be evicted, and warn of evictions that the API would reject now."""
        progress, result = self.guard.progress, self.result
        result.evicted = [str(pod_of(pod)) for pod in pods]
        progress.show("%s: would evict %s" % (name, ", ".join(result.evicted) or "no pods"))
        rejected = progress.result(
            "checking the evictions", lambda: self._rejected(evictions.evictions_to_request(pods))
        )
        if rejected:
            text = "%s: these evictions would be rejected now, and repeated for %d seconds: %s"
            reasons = "; ".join("pod %s: %s" % each for each in rejected.items())
            result.warnings.append(text % (self.host.name, progress.timeout, reasons))

    def _cordon(self, node: Data, pods: list[Data]) -> Data:
        """Cordon the node, and record the controllers of the pods."""
        guard = self.guard
        found = self._workloads(node, pods) if self.options.wait_for_pods else []
        return guard.change(node, lambda item: record.cordon(item, guard.run, found))

    def _workloads(self, node: Data, pods: list[Data]) -> list[Workload]:
        """The controllers of pods, with their number of ready pods. Waits until all of their pods are ready.

        Otherwise, each run would take another pod of a workload that cannot be scheduled after the change. Those from
        which an earlier run has evicted pods are recorded, and lack these.
        """
        progress, known = self.guard.progress, self.guard.require_available(node)
        found = workloads.workloads_of(pods, known.workloads if known else ())

        def degraded() -> tuple[list[list[Data]], list[str]]:
            read = self.guard.api.read(*workloads.objects_to_read(found)) if found else []
            return read, workloads.degraded(found, read)

        try:
            return workloads.counted(found, progress.until_empty("draining %s" % name_of(node), degraded))
        except Waiting as error:
            raise _Failed(
                "after %d seconds, pods are not ready whose controllers would lose more pods: %s. Resolve this, or set "
                "gpu_cluster_drain_wait_for_pods to false" % (progress.timeout, error)
            ) from None

    def _evict(self, reading: Reading) -> list[str]:
        """Request the eviction of the pods that are left. The API rejects those that a disruption budget protects."""
        pods, evicted = self._to_evict(reading), self.result.evicted
        requested = evictions.evictions_to_request(pods)
        rejected = self._rejected(requested)
        evicted += [name for name in map(str, requested) if name not in rejected and name not in evicted]
        return [evictions.waiting_reason(pod, rejected) for pod in pods]

    def _rejected(self, pods: list[Pod]) -> dict[str, str]:
        """Request evictions; the reasons for which the API rejects some of them, by pod."""
        rejected = self.guard.api.evict(pods, self.options.grace_period)
        return {str(pod): reason for pod, reason in rejected.items()}

    def _pause(self, reading: Reading, components: t.Sequence[str]) -> Reading:
        """Record that the node is drained and pause components in one write, then wait until their pods have ended."""
        guard = self.guard
        node = guard.change(reading.node, lambda item: record.pause(item, guard.run, components))
        # A component may have started before it was paused.
        first = Reading(node, reading.pods) if labels_of(node) == labels_of(reading.node) else None
        return self._until_empty(name_of(node), first, "still runs components of the GPU operator", _running)

    def _until_empty(
        self, name: str, first: Reading | None, why: str, reasons: t.Callable[[Reading], list[str]]
    ) -> Reading:
        """Keep the node cordoned until there are no reasons to wait. ``first`` is its first reading, if that is current."""
        guard = self.guard

        def renew() -> Reading:
            reading = guard.api.reading(name)
            return reading._replace(node=guard.change(reading.node, lambda item: record.renew(item, guard.run)))

        try:
            return guard.until_empty("draining %s" % name, first, renew, reasons)
        except Waiting as error:
            raise _Failed("after %d seconds, node %s %s: %s" % (guard.progress.timeout, name, why, error)) from None


def _running(reading: Reading) -> list[str]:
    return ["pod " + str(pod) for pod in operands.pods_of_paused(*reading)]


def _return_to_service(guard: NodeGuard, node: Data, known: Record | None, check_mode: bool) -> str:
    """Uncordon the node unless its GPUs may have been changed; a sentence on the result, without a full stop."""
    name = name_of(node)
    if known is not None and known.drained:
        return (
            "It was out of service before, and remains so, because its GPUs may have been changed. Run this again to "
            "continue"
        )
    if check_mode:
        return "Nothing was changed"
    try:
        # The response to an earlier change may be lost.
        node = guard.progress.result("reading node %s" % name, lambda: guard.api.reading(name).node)
        node = guard.change(node, record.uncordon)
    except (Unreadable, ValueError) as error:
        return "Node %s may still be cordoned (%s). Its GPUs were not changed. Run this again to continue" % (
            name,
            error,
        )
    return "%s, and its GPUs were not changed" % record.service_state(node)
