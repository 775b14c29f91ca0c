# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: wait until the nodes of a cluster advertise their GPUs, and show the progress."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import wait
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "expected": {"type": "dict", "required": True},
        "namespace": {"type": "str", "required": True},
        "helm_chart": {"type": "str", "default": ""},
        "elsewhere": {"type": "bool", "default": True},
        "timeout": {"type": "int", "required": True},
        "settle": {"type": "int", "default": 0},
    }

    def perform(self, variables: Data) -> Data:
        arguments = dict(self._arguments)
        expected = {node: ExpectedNode(**each) for node, each in arguments.pop("expected").items()}
        state = wait.wait_for_nodes(self._api, expected, wait.WaitOptions(**arguments), show)
        result: Data = {"waiting": list(state.waiting), "problems": list(state.failed)}
        if not state.ready:
            result.update(failed=True, msg=wait.failure_message(self._api, state, arguments["timeout"]))
        return result
