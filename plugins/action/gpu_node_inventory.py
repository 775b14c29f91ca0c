# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: select a host's roles, and validate its variables."""

from __future__ import annotations

from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_variables
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import host_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import registry as inventory_registry
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(Action):
    ARGUMENTS = {
        "registry": {"type": "list", "elements": "dict", "required": True},
        "facts": {"type": "dict", "default": {}},
        "all_roles": {"type": "bool", "default": False},
        "scope": {"type": "str", "choices": ["all", "node", "cluster"], "default": "all"},
        "check": {"type": "str", "choices": ["preflight", "verify"], "default": "preflight"},
        "record": {"type": "raw"},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        facts, preflight = arguments["facts"], arguments["check"] == "preflight"
        own = variables.get("hostvars", {}).get(variables.get("inventory_hostname"), {})
        values, unreadable = self._read(variables)
        registry = inventory_registry.parse_rows(arguments["registry"])
        tags = inventory_registry.Tags(
            variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", []), self._task.tags
        )
        roles = inventory_registry.select_roles(
            registry,
            values.get("gpu_node_roles"),
            tags,
            arguments["record"],
            [row.role for row in registry if not inventory_variables.variables_of(row.role).isdisjoint(own)],
            arguments["all_roles"],
            arguments["scope"],
        )
        found = host_check.check_host(variables, values, unreadable, roles, facts, preflight)
        problems = found.problems
        if preflight:
            host = host_of(str(variables.get("inventory_hostname")), {**values, **facts})
            problems = [*problems, *dra_variables.variable_problems(host, values)]
        return {
            "problems": problems,
            "selected": roles.selected,
            "roles": found.roles,
            "updates": [role for role in roles.updates if role in found.roles],
            "interrupts": roles.interrupts,
            "unrequested": roles.unrequested,
            "warnings": [
                *found.warnings,
                *inventory_variables.without_effect(own, load_extra_vars(self._loader)),
            ],
        }

    def _read(self, variables: Data) -> tuple[Data, dict[str, str]]:
        """The values of the collection's variables, and an error for each that cannot be read."""
        values: Data = {}
        unreadable: dict[str, str] = {}
        for name in sorted(inventory_variables.known_variables().intersection(variables)):
            try:
                values[name] = self._templar.template(variables[name])
            except Exception as error:  # templates and vaults can raise any exception
                unreadable[name] = _cause(error)
        return values, unreadable


def _cause(error: BaseException) -> str:
    """The innermost cause: Ansible's wrappers only add internal details. Before 2.19, it is in orig_exc."""
    inner = error.__cause__ or getattr(error, "orig_exc", None)
    return str(error) if inner is None else _cause(inner)
