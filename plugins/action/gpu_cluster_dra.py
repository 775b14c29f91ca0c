# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: check NVIDIA's DRA driver, and the devices that it publishes."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "check": {"type": "str", "choices": ["preflight", "verify"], "required": True},
        "may_be_missing": {"type": "bool", "default": False},
    }

    def perform(self, variables: Data) -> Data:
        hostvars, names = variables["hostvars"], variables["ansible_play_hosts"]
        options = dra_check.DraOptions(
            verifies=self._arguments["check"] == "verify",
            may_be_missing=self._arguments["may_be_missing"],
            on_controller=self._on_controller,
        )
        try:
            results = self._api.results(dra_check.OBJECTS)
        except Unreadable as error:
            results = [{"msg": str(error)}]
        found = dra_check.check_driver(results, [host_of(name, hostvars[name]) for name in names], options)
        forged = inventory_variables.forged_fact_problems_by_host(hostvars, names)
        problems = {host: [*found.shared, *own, *found.of_hosts.get(host, ())] for host, own in forged.items()}
        return {"problems": problems, **({"warnings": found.warnings} if found.warnings else {})}
