# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: find what a role has installed in a cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import inputs, removal
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import CHARTS
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "role": {"type": "str", "required": True, "choices": sorted(CHARTS)},
    }

    def perform(self, variables: Data) -> Data:
        role = self._arguments["role"]
        # Without required variables, which a removal does not need.
        own, _errors = inventory_variables.validated_for_host(role, variables, self._templar.template)
        settings = {name.removeprefix(role + "_"): value for name, value in own.items()}
        installation = Installation(CHARTS[role], settings)
        requested = removal.objects_to_read(installation)
        try:
            found = self._api.results(list(requested.values()))
        except Unreadable as error:
            return {"failed": True, "msg": str(error)}
        cluster = inputs.cluster_of(requested, found, nodes={})
        unread = inputs.unreadable_objects(requested, cluster)
        if unread:
            return {"failed": True, "msg": "; ".join(unread)}
        return {**removal.plan_removal(installation, cluster)._asdict(), "settings": settings}
