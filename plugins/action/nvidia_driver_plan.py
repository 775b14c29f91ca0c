# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: select the driver packages of a node and check whether they can be installed."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.module_utils._common.text import NOT_ROOT
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import node as driver_node
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

# dkms may be installed without a package. Otherwise a package source must offer it.
_FIND_DKMS = "command -v dkms || dnf --quiet list --available dkms"


class ActionModule(Action):
    ARGUMENTS = {"packages": {"type": "bool", "default": True}}

    def perform(self, variables: Data) -> Data:
        facts = variables["ansible_facts"]
        if not self._arguments["packages"]:
            return {"plan": {}, "problems": [], "running_problems": driver_node.running_problems(facts["nvidia"])}
        settings, problems = inventory_variables.validated_for_host("nvidia_driver", variables, self._templar.template)
        plan: Data = {}
        try:
            plan = {} if problems else driver_node.plan_for_node(facts, settings)
        except Refusal as error:
            problems = [*error.args]
        if plan and plan["manager"] == "dnf" and plan["build"] == "dkms" and not self._finds_dkms():
            problems.append(
                "the kernel modules need dkms, and no package source of the node offers it. Enable EPEL (dnf install "
                "epel-release; on RHEL from dl.fedoraproject.org), or install dkms from a mirror, or set "
                "nvidia_driver_module_build to prebuilt"
            )
        problems += driver_node.installation_problems(facts["nvidia"])
        if int(facts.get("effective_user_id", 0)) != 0:
            problems.insert(0, NOT_ROOT)
        running = driver_node.running_problems(facts["nvidia"], plan or None)
        return {"plan": plan, "problems": problems, "running_problems": running, "warnings": plan.get("notices", [])}

    def _finds_dkms(self) -> bool:
        return bool(self._low_level_execute_command(_FIND_DKMS)["rc"] == 0)
