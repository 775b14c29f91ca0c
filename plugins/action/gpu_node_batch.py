# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: show the progress of a play in batches, and stop it if too many hosts failed."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import batches


class ActionModule(Action):
    ARGUMENTS = {
        "most": {"type": "int", "default": 0},
        "scope": {"type": "str", "default": "node", "choices": ["node", "cluster", "to_drain"]},
    }

    def perform(self, variables: Data) -> Data:
        arguments, after_batches = self._arguments, self._arguments["scope"] == "cluster"
        every = list(variables["ansible_play_hosts_all"])
        current = list(variables["ansible_play_batch"])
        failed = sorted(set(every) - set(variables["ansible_play_hosts"]))
        batch = batches.Batch(every, current, failed)
        if arguments["scope"] == "to_drain":
            batch = batches.Batch(sorted(every), current, failed, variables["groups"].get("gpu_cluster_done", ()))
        message = batches.refusal(batch, arguments["most"], after_batches)
        if message:
            return {"failed": True, "msg": message}
        if not after_batches and (batch.done or batch.later):
            show(batches.progress(batch, "Checked" if self._task.check_mode else "Done"))
        return {}
