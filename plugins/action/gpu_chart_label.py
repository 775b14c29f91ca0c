# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: label nodes, and restart the MIG managers that read the labels."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import node_labels, removal
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.node_guard import NodeGuard
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

_UNDO = {"own": removal.own_labels, "operator": removal.operator_labels}


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "nodes": {"type": "list", "elements": "dict", "default": []},
        "undo": {"type": "str", "default": "", "choices": ["", "own", "operator"]},
        "retry": {"type": "list", "elements": "str", "default": []},
        "managers": {"type": "str", "default": ""},
        "drained": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 300},
    }

    def perform(self, variables: Data) -> Data:
        own = inventory_variables.valid_for_host("gpu_cluster", variables, self._templar.template)
        arguments, takeover = self._arguments, own["gpu_cluster_drain_takeover"]
        guard = NodeGuard(self._api, Progress(arguments["timeout"], show), runs.current(), takeover)
        changes: removal.Labels = {each["node"]: each["labels"] for each in arguments["nodes"]}
        if arguments["undo"]:
            try:
                (nodes,) = guard.progress.result("reading the nodes", lambda: self._api.read({"kind": "Node"}))
            except Unreadable as error:
                return {"failed": True, "msg": str(error)}
            changes = _UNDO[arguments["undo"]](nodes)
        request = node_labels.LabelRequest(changes, arguments["retry"], arguments["managers"], arguments["drained"])
        return node_labels.change_labels(guard, request, self._task.check_mode).of_task()
