# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: take the host's node out of service before its GPUs change."""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data, name_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import Pod, is_terminating, pod_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra, evictions, operands, record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import workloads as drain_workloads
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.evictions import EvictionOptions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.record import Record

Reading = t.Tuple[Data, t.List[Data]]  # a node and its pods


class _Failed(Exception):
    """The node cannot be taken out of service."""


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "gpus": {"type": "list", "elements": "dict"},
        "checkpoint": {"type": "str"},
        "machine_id": {"type": "str", "default": ""},
        "allocator": {"type": "str", "default": "device_plugin", "choices": ["device_plugin", "dra"]},
        "pods": {"type": "str", "default": "all", "choices": ["all", "gpu", "affected"]},
        "ignore_daemonsets": {"type": "bool", "default": True},
        "delete_emptydir_data": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
        "grace_period": {"type": "int", "default": -1},
        "by_operator": {"type": "bool", "default": False},
        "wait_for_pods": {"type": "bool", "default": True},
        "takeover": {"type": "int", "required": True},
        "timeout": {"type": "int", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        self._run = runs.current()
        host = self._host = self._api.host()
        self._progress = Progress(self._arguments["timeout"], show)
        self._uses_dra = self._arguments["allocator"] == dra.ALLOCATOR
        self._options = EvictionOptions(**{name: self._arguments[name] for name in EvictionOptions._fields})
        planned = self._arguments["gpus"]
        self._change = evictions.Change(
            None if planned is None else evictions.devices_changed(planned, host.gpus or ()),
            evictions.devices_allocated(self._arguments["checkpoint"]),
        )
        self._evicted: list[str] = []
        result: Data = {"evicted": self._evicted}
        try:
            reading = "reading the node of %s" % host.name
            node, pods = self._progress.result(reading, lambda: self._api.host_node_and_pods(host))
            self._drain(node, pods, result)
        except (_Failed, Unreadable, ValueError) as error:
            result.update(failed=True, msg="%s: %s" % (host.name, error))
        return result

    def _available(self, node: Data) -> Record | None:
        return record.available(node, self._run, self._arguments["takeover"])

    def _drain(self, node: Data, found: list[Data], result: Data) -> None:
        name, known = name_of(node), self._available(node)
        try:
            if known is not None and not runs.is_same(known.run, self._run):
                show("An earlier run has left node %s out of service: this run continues, and returns it" % name)
            self._require_host(node)
            pods = self._progress.result("planning to drain %s" % name, lambda: self._to_evict(node, found))
            staying = evictions.staying(found, self._change)
            if staying:
                text = "%s: pods of DaemonSets and static pods stay on the node, and may lose their GPUs or MIG devices: %s"
                result["warnings"] = [text % (self._host.name, ", ".join(map(str, staying)))]
            changes = bool(known is None or not record.cordoned(node) or pods)
            if self._task.check_mode:
                result.update(changed=changes, evicted=[str(pod_of(pod)) for pod in pods])
                self._preview(name, pods, result)
                return
            node = self._cordon(node, pods)
            result["changed"] = changes
            # A run that is killed, or interrupted from the keyboard, can show nothing.
            ours = record.owned(node, self._run).cordoned
            notice = "until this run returns it" if ours else "and remains cordoned, as it was before"
            show("Node %s is out of service %s. If the run is interrupted, run it again" % (name, notice))
            # Other pods may have started before the node was cordoned.
            node, found, pods = self._progress.result("planning to drain %s" % name, lambda: self._planned(name))
            node = self._cordon(node, pods)
            node, found = self._until_empty(name, "is not drained", self._evict, (node, found))
            # The operator's MIG manager pauses and restarts the components itself.
            by_operator = self._arguments["by_operator"]
            node = self._pause(node, (), found) if by_operator else self._pause(node, operands.OPERANDS)
            if self._uses_dra:
                self._pause(node, operands.DRA_DRIVER)
        except (_Failed, Unreadable) as error:
            raise _Failed("%s. %s" % (error, self._returned(node, known))) from None

    def _preview(self, name: str, pods: list[Data], result: Data) -> None:
        """Show which pods would be evicted, and warn of evictions that the API would reject now."""
        show("%s: would evict %s" % (name, ", ".join(result["evicted"]) or "no pods"))
        rejected = self._progress.result("checking the evictions", lambda: self._rejected(_not_terminating(pods)))
        if rejected:
            text = "%s: these evictions would be rejected now, and repeated for %d seconds: %s"
            reasons = "; ".join("pod %s: %s" % each for each in rejected.items())
            result.setdefault("warnings", []).append(text % (self._host.name, self._arguments["timeout"], reasons))

    def _require_host(self, node: Data) -> None:
        """Raise an error if the node is another machine than the host, whose GPUs would change.

        This finds mistakes. A host can report any machine ID and host name.
        """
        different = cluster_nodes.difference(self._host)
        if different:
            raise _Failed(different)
        host = base64.b64decode(self._arguments["machine_id"]).decode(errors="replace").strip()
        found = ((node.get("status") or {}).get("nodeInfo") or {}).get("machineID")
        if host and found and host != found:
            raise _Failed(
                "node %s is another machine, with the machine ID %s, and that of the host is %s: correct "
                "gpu_cluster_node_name" % (name_of(node), found, host)
            )

    def _planned(self, name: str) -> tuple[Data, list[Data], list[Data]]:
        node, found = self._api.node_and_pods(name)
        return node, found, self._to_evict(node, found)

    def _cordon(self, node: Data, pods: t.Iterable[Data]) -> Data:
        workloads = self._workloads(name_of(node), pods, self._available(node))
        return self._write(node, lambda item: record.cordon(item, self._run, workloads))

    def _pause(self, node: Data, names: t.Sequence[str], found: list[Data] | None = None) -> Data:
        """Pause operands, and wait until their pods are gone. ``found`` are the pods, if they need not be read again."""
        node = self._write(node, lambda item: record.pause(item, self._run, names))
        known = (node, found) if found is not None else None
        return self._until_empty(name_of(node), "still runs components of the GPU operator", _operands, known)[0]

    def _write(self, node: Data, make: t.Callable[[Data], Data]) -> Data:
        return self._api.change(node, record.guarded(make, self._run, self._arguments["takeover"]), self._progress)

    def _to_evict(self, node: Data, found: list[Data]) -> list[Data]:
        name, change = name_of(node), self._change
        dynamic = dra.dynamic_mig(found)
        if dynamic:
            raise _Failed("; ".join(dynamic))
        if self._uses_dra and self._options.pods != "all":
            claims, slices = self._api.read(dra.CLAIMS, dra.slices(name))
            # The names of devices recur, so that outdated ones may be those of other devices.
            outdated = dra.differences(self._host, name, slices)
            devices = {} if outdated else dra.published(slices, name) or {}
            change = change._replace(allocated=dra.claimed(claims, devices, name))
        pods, problems = evictions.to_evict(found, self._options, change)
        if problems:
            raise _Failed("node %s cannot be drained: %s" % (name, "; ".join(problems)))
        return pods

    def _workloads(self, name: str, pods: t.Iterable[Data], known: Record | None) -> list[drain_workloads.Workload]:
        """The controllers of pods, with their number of ready pods. Waits until all of their pods are ready.

        Otherwise, each run would take another pod of a workload that cannot be scheduled after the change. Those from
        which an earlier run has evicted pods are recorded, and lack these.
        """
        recorded = {each.uid for each in known.workloads} if known else set[str]()
        wanted = drain_workloads.of(pods) if self._arguments["wait_for_pods"] else []
        found, read = [each for each in wanted if each.uid not in recorded], list[list[Data]]()

        def degraded() -> list[str]:
            read[:] = self._api.read(*drain_workloads.requests(found)) if found else []
            return drain_workloads.degraded(found, read)

        waiting = self._progress.until_empty("draining %s" % name, degraded)
        if waiting:
            raise _Failed(
                "after %d seconds, pods are not ready whose controllers would lose more pods: %s. Resolve this, or set "
                "gpu_cluster_drain_wait_for_pods to false" % (self._arguments["timeout"], "; ".join(waiting))
            )
        return drain_workloads.counted(found, read)

    def _until_empty(
        self, name: str, why: str, step: t.Callable[[Data, list[Data]], list[str]], known: Reading | None
    ) -> Reading:
        """Repeat a step with the node and its pods until it returns nothing, and return them as they were read last.

        ``known`` is the first reading, if it is still current.
        """
        first, read = [known] if known else [], list[Reading]()

        def reasons() -> list[str]:
            node, found = first.pop() if first else self._api.node_and_pods(name)
            node = self._write(node, lambda item: record.keep(item, self._run))
            read[:] = [(node, found)]
            return step(node, found)

        waiting = self._progress.until_empty("draining %s" % name, reasons)
        if waiting:
            seconds = self._arguments["timeout"]
            raise _Failed("after %d seconds, node %s %s: %s" % (seconds, name, why, "; ".join(waiting)))
        return read[0]

    def _evict(self, node: Data, found: list[Data]) -> list[str]:
        """Request the eviction of the pods that are left. The API rejects those that a disruption budget protects."""
        pods = self._to_evict(node, found)
        requested = _not_terminating(pods)
        reasons = self._rejected(requested)
        self._evicted += [name for name in map(str, requested) if name not in reasons and name not in self._evicted]
        return [_waiting(pod, reasons) for pod in pods]

    def _rejected(self, pods: list[Pod]) -> dict[str, str]:
        """Request evictions, which check mode only checks; the reasons for which the API rejects some of them, by pod."""
        rejected = self._api.remove("evicted", pods, self._arguments["grace_period"])
        return {"%(namespace)s/%(name)s" % each: str(each["reason"]) for each in rejected}

    def _returned(self, node: Data, known: Record | None) -> str:
        """Return the node to service unless its GPUs may have been changed. A sentence without a full stop."""
        name = name_of(node)
        if known is not None and known.drained:
            return (
                "It was out of service before, and remains so, because its GPUs may have been changed. Run this again to "
                "continue"
            )
        if self._task.check_mode:
            return "Nothing was changed"
        try:
            # The response to an earlier change may be lost.
            node = self._progress.result("reading node %s" % name, lambda: self._api.node_and_pods(name)[0])
            node = self._write(node, record.uncordon)
        except (Unreadable, ValueError) as error:
            return "Node %s may still be cordoned (%s). Its GPUs were not changed. Run this again to continue" % (
                name,
                error,
            )
        return "%s, and its GPUs were not changed" % record.returned(node)


def _not_terminating(pods: t.Iterable[Data]) -> list[Pod]:
    return [pod_of(pod) for pod in pods if not is_terminating(pod)]


def _operands(node: Data, found: list[Data]) -> list[str]:
    return ["pod " + str(pod) for pod in operands.paused(node, found)]


def _waiting(pod: Data, rejected: t.Mapping[str, str]) -> str:
    name = str(pod_of(pod))
    if name in rejected:
        return "pod %s: %s" % (name, rejected[name])
    if not is_terminating(pod):
        return "pod %s is being evicted" % name
    finalizers = ", ".join(pod["metadata"].get("finalizers") or ())
    return "pod %s is terminating%s" % (name, " (finalizers: %s)" % finalizers if finalizers else "")
