# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: whether the user of the kubeconfig may drain nodes."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import permissions
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable, unreachable


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "may_be_missing": {"type": "bool", "default": False},
    }

    def perform(self, variables: Data) -> Data:
        reviews = permissions.access_reviews(permissions.drain_permissions())
        warning = ""
        try:
            reviewed = self._api.call("kubernetes.core.k8s", resource_definition=reviews)["result"]
            problem, warning = permissions.denial(reviewed, permissions.BIND), permissions.unchecked(reviewed)
        except Unreadable as error:
            problem = unreachable({"msg": str(error)}, self._arguments["may_be_missing"], self._on_controller)
        return {"problems": [problem] if problem else [], **({"warnings": [warning]} if warning else {})}
