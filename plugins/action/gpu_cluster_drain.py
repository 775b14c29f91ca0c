# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: take the host's node out of service before its GPUs change."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_devices, drain_node, evictions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.evictions import EvictionOptions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.node_guard import NodeGuard
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "gpus": {"type": "list", "elements": "dict"},
        "checkpoint": {"type": "str"},
        "machine_id": {"type": "str", "default": ""},
        "by_operator": {"type": "bool", "default": False},
    }

    def perform(self, variables: Data) -> Data:
        own = inventory_variables.valid_for_host("gpu_cluster", variables, self._templar.template)
        arguments, host = self._arguments, self._api.host()
        planned = arguments["gpus"]
        change = evictions.DeviceChange(
            None if planned is None else evictions.devices_changed(planned, host.gpus or ()),
            evictions.devices_allocated(arguments["checkpoint"]),
        )
        options = drain_node.DrainOptions(
            change=change,
            evictions=EvictionOptions(**{name: own["gpu_cluster_drain_" + name] for name in EvictionOptions._fields}),
            grace_period=own["gpu_cluster_drain_grace_period"],
            machine_id=arguments["machine_id"],
            uses_dra=own["gpu_cluster_allocator"] == dra_devices.ALLOCATOR,
            by_operator=arguments["by_operator"],
            wait_for_pods=own["gpu_cluster_drain_wait_for_pods"],
            check_mode=self._task.check_mode,
        )
        progress = Progress(own["gpu_cluster_drain_timeout"], show)
        guard = NodeGuard(self._api, progress, runs.current(), own["gpu_cluster_drain_takeover"])
        result = drain_node.drain(guard, host, options)
        return {**result.of_task(), "evicted": result.evicted}
