# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: select the driver packages of a node and check whether they can be installed."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.module_utils._mig import messages
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import node as driver_node
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

_ARGUMENTS = {"packages": {"type": "bool", "default": True}}
# dkms may be installed without a package. Otherwise a package source must offer it.
_FIND_DKMS = "command -v dkms || dnf --quiet list --available dkms"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type hints
    _VALID_ARGS = frozenset(_ARGUMENTS)

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        facts = variables["ansible_facts"]
        if not arguments["packages"]:
            running = driver_node.running_problems(facts["nvidia"])
            result.update(changed=False, plan={}, problems=[], running_problems=running)
            return result
        settings, problems = inventory_variables.validated_for_host("nvidia_driver", variables, self._templar.template)
        plan: dict[str, t.Any] = {}
        try:
            plan = {} if problems else driver_node.plan(facts, settings)
        except Refusal as error:
            problems = [str(error)]
        if plan and plan["manager"] == "dnf" and plan["build"] == "dkms" and not self._finds_dkms():
            problems.append(
                "the kernel modules need dkms, and no package source of the node offers it. Enable EPEL (dnf install "
                "epel-release; on RHEL from dl.fedoraproject.org), or install dkms from a mirror, or use prebuilt modules "
                "with nvidia_driver_module_build"
            )
        problems += driver_node.installation_problems(facts["nvidia"])
        if int(facts.get("effective_user_id", 0)) != 0:
            problems.insert(0, messages.NOT_ROOT)
        running = driver_node.running_problems(facts["nvidia"], plan or None)
        result.update(changed=False, plan=plan, problems=problems, running_problems=running)
        if plan.get("notices"):
            result["warnings"] = plan["notices"]
        return result

    def _finds_dkms(self) -> bool:
        return bool(self._low_level_execute_command(_FIND_DKMS)["rc"] == 0)
