# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: delete pods that a controller replaces, and wait until they are gone."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import Pod
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show

_TIMEOUT = 300  # seconds for each step


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "pods": {"type": "list", "elements": "dict", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        pods = [Pod(**each) for each in self._arguments["pods"]]
        result: Data = {"changed": bool(pods)}
        if self._task.check_mode:
            return result
        try:
            self._api.restart(pods, Progress(_TIMEOUT, show))
        except Unreadable as error:
            result.update(failed=True, msg=str(error))
        return result
