# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Return the node of a host to service after its GPUs have changed: restart, wait, uncordon."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.api import Reading
from .._cluster.labels import DEPLOY
from .._cluster.nodes import Host, labels_of, name_of
from .._cluster.pods import pod_of
from .._cluster.progress import Waiting
from .._cluster.responses import NoNode, Unreadable
from .._common.result import TaskResult
from . import dra_devices, operands, record, workloads
from .node_guard import NodeGuard
from .record import Record
from .workloads import Workload

_WITHOUT_GPUS = (
    "%s: the device plugin does not start with the MIG strategy that it has now (%s). Its node is in service without GPUs "
    "until the role gpu_operator or device_plugin has changed the strategy, which site.yml and mig.yml do at their end"
)
_UNCOMPARED = "%s: its node returned to service, but what it advertises was not compared with the layout, because %s"


class ReturnOptions(t.NamedTuple):
    """How the node returns."""

    uncordon: bool = True  # false: the change has failed, so that only the paused components resume
    wait: bool = True  # until the node advertises its devices
    wait_for_pods: bool = True  # until those that were evicted are ready again
    drained: bool = False  # whether this run has drained the node
    layout_applied: bool = True  # whether the host has its layout, if it owns MIG
    by_operator: bool = False  # whether the MIG manager has changed the GPUs
    uses_dra: bool = False
    check_mode: bool = False


class _NotReady(Exception):
    """The node, or the pods that were evicted from it, are not ready in time."""


def return_node(guard: NodeGuard, host: Host, options: ReturnOptions) -> TaskResult:
    """Return the node of a host, if a run has taken it out of service. Any later run can do that too.

    The record is removed in the same write that uncordons the node, after which only the evicted pods are waited for.
    """
    result = TaskResult()
    try:
        _Return(guard, host, options, result).perform()
    except (_NotReady, ValueError) as error:
        if isinstance(error, record.OtherRun) and not options.uncordon:  # this run has already failed
            return TaskResult(warnings=["%s: another run has its node out of service, and returns it" % host.name])
        result.problem = "%s: %s" % (host.name, error)
    except NoNode as error:
        if options.wait:
            result.problem = "%s: %s" % (host.name, error)
        else:  # undo, which removes nodes, may run again
            result.warnings = ["%s: %s. Nothing was returned to service" % (host.name, error)]
    except Unreadable as error:
        text = "%s: %s. If its node is out of service, it remains so: run this again to return it"
        result.problem = text % (host.name, error)
    return result


class _Return:
    """The steps, which complete the result. They raise _NotReady, Unreadable, and ValueError, also OtherRun."""

    def __init__(self, guard: NodeGuard, host: Host, options: ReturnOptions, result: TaskResult) -> None:
        self.guard, self.host, self.options, self.result = guard, host, options, result

    def perform(self) -> None:
        guard, host, options, result = self.guard, self.host, self.options, self.result
        reading = guard.progress.result("reading the node of %s" % host.name, lambda: guard.api.host_reading(host))
        known = guard.require_available(reading.node)
        steps = record.commands_without_record(reading.node) if known is None and options.drained else ""
        if steps:
            raise _NotReady(
                "node %s was not returned to service: its annotation %s was removed during this run. Unless someone "
                "else has cordoned it, return it with: %s" % (name_of(reading.node), record.RECORD, steps)
            )
        if known is None and not self._is_outdated(reading):
            return
        result.changed = True
        if not options.uncordon:
            result.warnings.append("%s: its node is out of service until this is run again and succeeds" % host.name)
        if options.check_mode:
            return
        former = _former(reading, known, options)
        node = self._resume(reading.node, former)
        if options.uncordon:
            # Unless a label was changed, the reading is current but for the former pods.
            self._uncordon(node, reading if node is reading.node else None, known, former)

    def _is_outdated(self, reading: Reading) -> bool:
        """Whether the DRA driver publishes other devices than the node has, although the node was not drained."""
        options, name = self.options, name_of(reading.node)
        if not (options.uses_dra and options.uncordon and options.wait and dra_devices.kubelet_plugins(reading.pods)):
            return False
        if dra_devices.present(self.host) is None:  # verify reports it
            return False
        dynamic = dra_devices.dynamic_mig(reading.pods)
        if dynamic:
            raise Unreadable("; ".join(dynamic))
        slices = self.guard.progress.result("reading the devices of node %s" % name, lambda: self._slices(name))
        return bool(dra_devices.differences(self.host, name, slices))

    def _slices(self, name: str) -> list[Data]:
        return self.guard.api.read(dra_devices.slices(name))[0]

    def _resume(self, node: Data, former: list[Data]) -> Data:
        """Restore the labels of paused components, and restart the former pods. The node remains cordoned."""
        guard = self.guard
        if self.options.uncordon and former:
            node = guard.change(node, lambda _found: operands.state_removal(former))
        node = guard.change(node, lambda found: record.resume(found, guard.run))
        pods = [pod_of(pod) for pod in former]
        guard.progress.result("restarting pods on node %s" % name_of(node), lambda: guard.api.delete(pods))
        return node

    def _uncordon(self, node: Data, first: Reading | None, known: Record | None, former: list[Data]) -> None:
        expected = operands.Expectation()
        if self.options.wait:
            last = self._until_ready(node, first, former)
            node, expected = last.node, self._expectation(last)
        node = self.guard.change(node, record.uncordon)
        if expected.unknown:
            self.result.warnings.append(_UNCOMPARED % (self.host.name, expected.unknown))
        if expected.unsupported:
            self.result.warnings.append(_WITHOUT_GPUS % (self.host.name, expected.unsupported))
        elif self.options.wait and self.options.wait_for_pods and known is not None:
            self._wait_for_pods(node, known.workloads)

    def _expectation(self, reading: Reading) -> operands.Expectation:
        if self.options.uses_dra:
            return operands.Expectation()
        return operands.expectation(self.host, *reading, self.options.layout_applied)

    def _until_ready(self, node: Data, first: Reading | None, former: list[Data]) -> Reading:
        """Wait until the node advertises its devices. ``first`` is its first reading, if that is current."""
        guard, name, components = self.guard, name_of(node), self._components(node)

        def unready(reading: Reading) -> list[str]:
            if self.options.uses_dra:
                return dra_devices.unready(self.host, *reading, self._slices(name), former, components)
            expected = self._expectation(reading)
            if expected.unsupported:  # a later task changes the strategy, so that waiting for it here would never end
                return readiness.node_problems(reading.node)
            return operands.unready(*reading, expected.resources, former, components)

        try:
            return guard.until_empty("waiting for node %s" % name, first, lambda: guard.api.reading(name), unready)
        except Waiting as error:
            text = "after %d seconds, node %s is not ready%s"
            raise _NotReady(text % (guard.progress.timeout, name, _remedy(node, str(error)))) from None

    def _components(self, node: Data) -> set[str]:
        """The components of the GPU operator on the node."""
        if not any(label.startswith(DEPLOY) for label in labels_of(node)):
            return set()
        requested: Data = {"kind": "DaemonSet", "api_version": "apps/v1"}
        reading = "reading the DaemonSets of the cluster"
        return operands.deployed_components(
            node, self.guard.progress.result(reading, lambda: self.guard.api.read(requested)[0])
        )

    def _wait_for_pods(self, node: Data, evicted: t.Sequence[Workload]) -> None:
        """Wait until the controllers of evicted pods have as many ready pods as before."""
        api, progress, name = self.guard.api, self.guard.progress, name_of(node)
        before = {each.uid: each.ready for each in evicted}

        def unready() -> tuple[list[Workload], list[str]]:
            left = workloads.unready(evicted, api.read(*workloads.objects_to_read(evicted))) if evicted else []
            text = "%s has %d ready pods, and had %d before"
            return left, [text % (each, each.ready, before[each.uid]) for each in left]

        try:
            progress.until_empty("waiting for the pods that were evicted from node %s" % name, unready)
        except Waiting as error:
            left: list[Workload] = error.last or []
            pods = api.pods_in(sorted({each.namespace for each in left}))
            reasons = [reason.rstrip(".") for each in left for reason in workloads.pod_problems(each, pods)[:3]]
            raise _NotReady(
                "after %d seconds, pods that were evicted from node %s are not ready again: %s. %s. Resolve this "
                "before other nodes are drained, or set gpu_cluster_drain_wait_for_pods to false"
                % (progress.timeout, name, "; ".join([*error.reasons, *reasons]), record.service_state(node))
            ) from None


def _former(reading: Reading, known: Record | None, options: ReturnOptions) -> list[Data]:
    """The pods that read the GPUs before the change, and are restarted."""
    # The MIG manager restarts them itself.
    drained = operands.outdated_pods(*reading) if known and not options.by_operator else []
    return drained + (dra_devices.kubelet_plugins(reading.pods) if options.uses_dra else [])


def _remedy(node: Data, reasons: str) -> str:
    steps = record.return_commands(node)
    if not steps:
        return ": %s. It remains in service. Resolve this and run it again" % reasons
    return ", and remains cordoned: %s. Resolve this and run it again, or return the node with %s" % (reasons, steps)
