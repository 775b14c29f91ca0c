# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: fail if facts of the host replace variables."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(Action):
    _requires_connection = False

    def perform(self, variables: Data) -> Data:
        problems = inventory_variables.forged_fact_problems(variables["ansible_facts"])
        return {"failed": True, "msg": problems[0]} if problems else {}  # inventory_hostname may be forged too
