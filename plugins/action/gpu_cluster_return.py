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
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "uncordon": {"type": "bool", "default": True},
        "wait": {"type": "bool", "default": True},
        "drained": {"type": "bool", "default": False},
        "layout_applied": {"type": "bool", "default": True},
        "by_operator": {"type": "bool", "default": False},
    }

    def perform(self, variables: Data) -> Data:
        own = inventory_variables.valid_for_host("gpu_cluster", variables, self._templar.template)
        options = return_node.ReturnOptions(
            **self._arguments,
            wait_for_pods=own["gpu_cluster_drain_wait_for_pods"],
            uses_dra=own["gpu_cluster_allocator"] == dra_devices.ALLOCATOR,
            check_mode=self._task.check_mode,
        )
        progress = Progress(own["gpu_cluster_drain_timeout"], show)
        guard = NodeGuard(self._api, progress, runs.current(), own["gpu_cluster_drain_takeover"])
        return return_node.return_node(guard, self._api.host(), options).of_task()
