# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: return the host's node to service after its GPUs have changed."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_devices, return_node
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.node_guard import NodeGuard


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
        arguments = dict(self._arguments)
        progress, takeover = Progress(arguments.pop("timeout"), show), arguments.pop("takeover")
        uses_dra = arguments.pop("allocator") == dra_devices.ALLOCATOR
        options = return_node.ReturnOptions(**arguments, uses_dra=uses_dra, check_mode=self._task.check_mode)
        guard = NodeGuard(self._api, progress, runs.current(), takeover)
        return return_node.return_node(guard, self._api.host(), options).of_task()
