# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: label nodes, and restart the MIG managers that read the labels."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import removal
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs, readiness, runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data, labels_of, name_of, node_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import Pod, is_terminating, pod_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.access import Access

Labels = t.Dict[str, t.Dict[str, t.Optional[str]]]  # by node; None removes a label


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "nodes": {"type": "list", "elements": "dict", "default": []},
        "undo": {"type": "str", "default": "", "choices": ["", "own", "operator"]},
        "retry": {"type": "list", "elements": "str", "default": []},
        "managers": {"type": "str", "default": ""},
        "takeover": {"type": "int", "required": True},
        "drained": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 300},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        result: Data = {}
        self._progress = Progress(arguments["timeout"], show)
        try:
            wanted: Labels = {each["node"]: each["labels"] for each in arguments["nodes"]}
            if arguments["undo"]:
                find = removal.own_labels if arguments["undo"] == "own" else removal.operator_labels
                wanted = find(*self._progress.result("reading the nodes", self._all))
            retried: Labels = {name: {mig_configs.STATE: None} for name in arguments["retry"]}
            changes = {name: {**retried.get(name, {}), **wanted.get(name, {})} for name in [*wanted, *retried]}
            result.update(changed=bool(changes))
            if not changes:
                return result
            nodes, managers = self._progress.result("reading the nodes", lambda: self._read(list(changes)))
            result["diff"] = [_diff(nodes[name], change) for name, change in changes.items()]
            if self._task.check_mode:
                return result
            nodes = {**nodes, **self._label(nodes, retried)}
            self._api.restart(managers, self._progress)
            self._wait_for_end([name for name, labels in wanted.items() if labels.get(mig_configs.LABEL, "") is None])
            self._label(nodes, wanted)
        except (Unreadable, ValueError) as error:
            result.update(failed=True, msg=str(error))
        return result

    def _all(self) -> list[list[Data]]:
        return self._api.read({"kind": "Node"})

    def _read(self, names: t.Sequence[str]) -> tuple[dict[str, Data], list[Pod]]:
        """The nodes by name, and the MIG managers to restart: those that apply a configuration afterwards.

        A running one sees a new ConfigMap with a delay, and does not retry a failed configuration. Where the label is
        removed, one that starts would apply it once more, and write the state again.
        """
        applying = {each["node"] for each in self._arguments["nodes"] if each["labels"].get(mig_configs.LABEL)}
        applying.update(self._arguments["retry"])
        nodes, pods = self._api.nodes(names, *self._managers(names))
        return nodes, [pod_of(pod) for pod in pods if node_of(pod) in applying]

    def _managers(self, names: t.Sequence[str]) -> list[Data]:
        """The request for the MIG managers of these nodes; with one node, only its pods are read."""
        if not self._arguments["managers"]:
            return []
        where = ["spec.nodeName=" + names[0]] if len(names) == 1 else []
        selected = {"label_selectors": ["app=" + readiness.MIG_MANAGER], "field_selectors": where}
        return [{"kind": "Pod", "namespace": self._arguments["managers"], **selected}]

    def _wait_for_end(self, names: t.Sequence[str]) -> None:
        """Wait until the chart has stopped the MIG managers of these nodes. Those of a node that is down do not end."""
        requests = self._managers(names) if names else []

        def running() -> list[str]:
            pods = [pod for found in self._api.read(*requests) for pod in found]
            left = [each for each in pods if node_of(each) in names and not is_terminating(each)]
            return ["the MIG manager still runs on node %s" % node_of(each) for each in left]

        waiting = self._progress.until_empty("stopping MIG managers", running) if requests else []
        if waiting:
            raise Unreadable("%s, although the chart has disabled it. Its labels were not removed" % "; ".join(waiting))

    def _label(self, nodes: t.Mapping[str, Data], changes: Labels) -> dict[str, Data]:
        """The nodes after the change. Fails if another run has taken one of them out of service, or returned it."""
        run = runs.current()

        def make(node: Data) -> Data:
            if self._arguments["drained"]:
                record.owned(node, run)
            return {"metadata": {"labels": changes[name_of(node)]}}

        access = Access(self._api, self._progress, run, self._arguments["takeover"])
        return access.change_all({name: nodes[name] for name in changes}, make)


def _diff(node: Data, change: t.Mapping[str, str | None]) -> Data:
    before = {label: value for label, value in labels_of(node).items() if label in change}
    after = {label: value for label, value in change.items() if value is not None}
    return {"before_header": name_of(node), "after_header": name_of(node), "before": before, "after": after}
