# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: run kubernetes.core.k8s with the access of the role gpu_cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction

# In diffs, these parts of an object hide what changes.
_HIDDEN = [
    "metadata.managedFields",
    "metadata.generation",
    "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
]


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "options": {"type": "dict", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        options = {**self._arguments["options"], "hidden_fields": _HIDDEN}
        found: Data = self._execute_module("kubernetes.core.k8s", options, task_vars=variables)
        if self._task.diff and found.get("method") == "create":  # for which the module has no diff
            found["diff"] = {"before": {}, "after": options["definition"]}
        return found
