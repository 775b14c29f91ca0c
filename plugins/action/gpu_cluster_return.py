# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: return the host's node to service after its GPUs have changed."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import MigError
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs, plugin_configs, readiness, runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.labels import DEPLOY
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data, Host, labels_of, name_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import pod_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import NoNode, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra, operands, record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import workloads as drain_workloads
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import resources

_WITHOUT_GPUS = (
    "%s: the device plugin does not start with the MIG strategy that it has now (%s). Its node is in service without GPUs "
    "until the role gpu_operator or device_plugin has changed the strategy, which site.yml and mig.yml do at their end"
)


class _NotReady(Exception):
    """The node, or the pods that were evicted from it, are not ready in time."""


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "uncordon": {"type": "bool", "default": True},
        "wait": {"type": "bool", "default": True},
        "wait_for_pods": {"type": "bool", "default": True},
        "drained": {"type": "bool", "default": False},
        "layout_applied": {"type": "bool", "default": True},
        "by_operator": {"type": "bool", "default": False},
        "allocator": {"type": "str", "default": "device_plugin", "choices": ["device_plugin", "dra"]},
        "takeover": {"type": "int", "required": True},
        "timeout": {"type": "int", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        self._run = runs.current()
        self._progress = Progress(self._arguments["timeout"], show)
        self._uses_dra = self._arguments["allocator"] == dra.ALLOCATOR
        self._unsupported = ""  # why the device plugin cannot start before its MIG strategy changes
        host = self._api.host()
        result: Data = {"changed": False}
        try:
            reading = "reading the node of %s" % host.name
            node, pods = self._progress.result(reading, lambda: self._api.host_node_and_pods(host))
            known = record.available(node, self._run, self._arguments["takeover"])
            steps = record.commands_without_record(node) if known is None and self._arguments["drained"] else ""
            if steps:
                raise _NotReady(
                    "node %s was not returned to service: its annotation %s was removed during this run. Unless someone "
                    "else has cordoned it, return it with: %s" % (name_of(node), record.RECORD, steps)
                )
            if known is None and not self._is_outdated(host, node, pods):
                return result
            result["changed"] = True
            if not self._arguments["uncordon"]:
                result["warnings"] = ["%s: its node is out of service until this is run again and succeeds" % host.name]
            if not self._task.check_mode:
                self._return(host, node, pods)
            if self._unsupported:
                result["warnings"] = [_WITHOUT_GPUS % (host.name, self._unsupported)]
        except (_NotReady, ValueError) as error:
            if isinstance(error, record.OtherRun) and not self._arguments["uncordon"]:  # this run has already failed
                other = "%s: another run has its node out of service, and returns it" % host.name
                return {**result, "changed": False, "warnings": [other]}
            result.update(failed=True, msg="%s: %s" % (host.name, error))
        except NoNode as error:
            if self._arguments["wait"]:
                result.update(failed=True, msg="%s: %s" % (host.name, error))
            else:  # undo, which removes nodes, may run again
                result["warnings"] = ["%s: %s. Nothing was returned to service" % (host.name, error)]
        except Unreadable as error:
            text = "%s: %s. If its node is out of service, it remains so: run this again to return it"
            result.update(failed=True, msg=text % (host.name, error))
        return result

    def _is_outdated(self, host: Host, node: Data, pods: list[Data]) -> bool:
        """Whether the DRA driver publishes other devices than the node has, although the node was not drained."""
        arguments, name = self._arguments, name_of(node)
        if not (self._uses_dra and arguments["uncordon"] and arguments["wait"] and dra.plugins(pods)):
            return False
        if dra.present(host) is None:  # verify reports it
            return False
        dynamic = dra.dynamic_mig(pods)
        if dynamic:
            raise Unreadable("; ".join(dynamic))
        slices = self._progress.result("reading the devices of node %s" % name, lambda: self._slices(name))
        return bool(dra.differences(host, name, slices))

    def _daemonsets(self) -> list[Data]:
        return self._api.read({"kind": "DaemonSet", "api_version": "apps/v1"})[0]

    def _slices(self, name: str) -> list[Data]:
        return self._api.read(dra.slices(name))[0]

    def _return(self, host: Host, read: Data, pods: list[Data]) -> None:
        node, name, arguments = read, name_of(read), self._arguments
        known = record.read(node)
        former = operands.outdated(node, pods, arguments["by_operator"]) if known else []
        former += dra.plugins(pods) if self._uses_dra else []
        if arguments["uncordon"] and former:
            node = self._write(node, lambda _found: operands.unconfirmed(former))
        node = self._write(node, lambda found: record.resume(found, self._run))
        old = [pod_of(pod) for pod in former]
        self._progress.result("restarting pods on node %s" % name, lambda: self._api.delete(old))
        if not arguments["uncordon"]:
            return
        if arguments["wait"]:
            unchanged = node is read
            node = self._wait(host, node, former, pods if unchanged else None)
        node = self._write(node, record.uncordon)
        waits_for_pods = arguments["wait"] and arguments["wait_for_pods"] and not self._unsupported
        if waits_for_pods and known is not None and known.workloads:
            self._wait_for_pods(node, known.workloads)

    def _write(self, node: Data, make: t.Callable[[Data], Data]) -> Data:
        return self._api.change(node, record.guarded(make, self._run, self._arguments["takeover"]), self._progress)

    def _wait(self, host: Host, node: Data, former: t.Sequence[Data], pods: list[Data] | None) -> Data:
        """The node when it is ready. ``pods`` are those on it, if it is as it was read with them."""
        name, first, read = name_of(node), [(node, pods)] if pods is not None else [], [node]
        components: set[str] = set()
        if any(label.startswith(DEPLOY) for label in labels_of(node)):
            reading = "reading the DaemonSets of the cluster"
            components = operands.deployed(node, self._progress.result(reading, self._daemonsets))

        def unready() -> list[str]:
            now, here = first.pop() if first else self._api.node_and_pods(name)
            read[:] = [now]
            if self._uses_dra:
                return dra.unready(host, now, here, self._slices(name), former, components)
            self._unsupported = self._contradiction(host, now, here)
            if self._unsupported:  # a later task changes the strategy, so that waiting for it here would never end
                return list(readiness.state({name: readiness.Wanted()}, [now], []).waiting)
            return operands.unready(now, here, self._resources(host, now, here), former, components)

        waiting = self._progress.until_empty("waiting for node %s" % name, unready)
        if waiting:
            raise _NotReady(
                "after %d seconds, node %s is not ready%s"
                % (self._arguments["timeout"], name, _remedy(node, "; ".join(waiting)))
            )
        return read[0]

    def _wait_for_pods(self, node: Data, workloads: t.Sequence[drain_workloads.Workload]) -> None:
        name = name_of(node)
        wanted = {each.uid: each.ready for each in workloads}
        left: list[drain_workloads.Workload] = []

        def unready() -> list[str]:
            left[:] = drain_workloads.unready(workloads, self._api.read(*drain_workloads.requests(workloads)))
            return ["%s has %d ready pods, and had %d before" % (each, each.ready, wanted[each.uid]) for each in left]

        waiting = self._progress.until_empty("waiting for the pods that were evicted from node %s" % name, unready)
        if waiting:
            pods = self._api.pods_in(sorted({each.namespace for each in left}))
            reasons = [reason.rstrip(".") for each in left for reason in drain_workloads.reasons(each, pods)[:3]]
            raise _NotReady(
                "after %d seconds, pods that were evicted from node %s are not ready again: %s. %s. Resolve this "
                "before other nodes are drained, or set gpu_cluster_drain_wait_for_pods to false"
                % (self._arguments["timeout"], name, "; ".join([*waiting, *reasons]), record.returned(node))
            )

    def _resources(self, host: Host, node: Data, pods: list[Data]) -> dict[str, int] | None:
        """The resources that the node should advertise.

        None if its layout or sharing is not applied yet, or if the strategy is unknown or does not support the layout.
        """
        strategy, current = operands.strategy(node, pods), plugin_configs.in_effect(host, node, pods)
        try:
            applied = self._is_applied(host, node)
            return cluster_nodes.expected(current, strategy) if applied and strategy and current else None
        except (MigError, Refusal):
            return None

    def _contradiction(self, host: Host, node: Data, pods: list[Data]) -> str:
        """Why the device plugin exits at its start: its strategy does not support the layout that the node has."""
        strategy = operands.strategy(node, pods)
        try:
            if strategy and self._is_applied(host, node):
                cluster_nodes.expected(host._replace(sharing=None), strategy)
        except resources.StrategyError as error:
            return "%s: %s" % (strategy, error)
        except (MigError, Refusal):
            pass  # reported with the layout
        return ""

    def _is_applied(self, host: Host, node: Data) -> bool:
        config = labels_of(node).get(mig_configs.LABEL)
        return bool(self._arguments["layout_applied"]) if config is None else config == _name(host)


def _remedy(node: Data, reasons: str) -> str:
    steps = record.return_commands(node)
    if not steps:
        return ": %s. It remains in service. Resolve this and run it again" % reasons
    return ", and remains cordoned: %s. Resolve this and run it again, or return the node with %s" % (reasons, steps)


def _name(host: Host) -> str | None:
    """The name of the configuration with which the MIG manager applies the host's layout."""
    return mig_configs.name(mig_configs.entries(host)) if host.layout is not None else None
