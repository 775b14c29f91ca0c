# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: select a host's roles, and validate its variables."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import registry as inventory_registry
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

_ARGUMENTS = {
    "registry": {"type": "list", "elements": "dict", "required": True},
    "facts": {"type": "dict", "default": {}},
    "all_roles": {"type": "bool", "default": False},
    "scope": {"type": "str", "choices": ["all", "node", "cluster"], "default": "all"},
    "check": {"type": "str", "choices": ["preflight", "verify"], "default": "preflight"},
    "record": {"type": "raw"},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type hints
    _VALID_ARGS = frozenset(_ARGUMENTS)

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        values, unreadable = self._read(variables)
        registry = inventory_registry.rows(arguments["registry"])
        own = variables.get("hostvars", {}).get(variables.get("inventory_hostname"), {})
        wanted = values.get("gpu_node_roles")
        tags = inventory_registry.Tags(
            variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", []), self._task.tags
        )
        given = [row.role for row in registry if not inventory_variables.variables_of(row.role).isdisjoint(own)]
        unrequested = inventory_registry.unrequested(registry, wanted, tags, arguments["record"], given)
        enabled = [role for role in inventory_registry.enabled(registry, wanted) if role not in unrequested]
        if arguments["all_roles"]:
            enabled = [row.role for row in registry]
        selected = inventory_registry.selected(registry, enabled, tags)
        # The tag "always" validates the variables of all roles, without the roles' own checks.
        validated = enabled if "always" in tags.run else selected
        facts = arguments["facts"]
        why = _unusable(facts, str(variables.get("inventory_hostname")))
        why = "; ".join([*filter(None, [why]), *inventory_variables.forged(variables.get("ansible_facts", {}))])
        # Some machines show no GPUs before the driver is installed.
        compares = not why and (_gpus(facts) or arguments["check"] != "preflight")
        differences = inventory_variables.board_differences(values, _gpus(facts)) if compares else []
        found = inventory_variables.NOTHING
        if validated or not enabled:
            roles = [*dict.fromkeys(["gpu_node", *validated])]
            # The layout does not fit other boards either; the role compares it with the GPUs.
            found = inventory_variables.check(variables, values, unreadable, roles, compares_layout=not differences)
        problems = [*found.problems, *inventory_registry.unknown(registry, wanted)]
        if "gpu_node" in found.invalid:
            differences = []  # of values that are invalid
        if why:
            problems.append(why)
        elif _compares_boards(registry, enabled, tags):
            problems.extend(differences)
            differences = []
        if arguments["check"] == "preflight":
            host = host_of(str(variables.get("inventory_hostname")), {**values, **facts})
            problems.extend(dra.of_variables(host, values))
        selected = inventory_registry.of_scope(registry, selected, arguments["scope"])
        excluded = {"gpu_node", *found.invalid}
        if found.layout and arguments["check"] == "preflight":
            excluded.add("nvidia_mig")  # its own preflight would repeat them
        checked = [role for role in selected if role not in excluded]
        result.update(
            changed=False, problems=problems, selected=selected, roles=[] if why else checked, unrequested=unrequested
        )
        warnings = [
            *differences,
            *found.notices,
            *inventory_variables.without_effect(own, load_extra_vars(self._loader)),
        ]
        if warnings:
            result["warnings"] = warnings
        return result

    def _read(self, variables: t.Mapping[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, str]]:
        """The values of the collection's variables, and an error for each that cannot be read."""
        values: dict[str, t.Any] = {}
        unreadable: dict[str, str] = {}
        for name in sorted(inventory_variables.known().intersection(variables)):
            try:
                values[name] = self._templar.template(variables[name])
            except Exception as error:  # templates and vaults can raise any exception
                unreadable[name] = _cause(error)
        return values, unreadable


def _compares_boards(
    registry: t.Sequence[inventory_registry.Row], enabled: t.Collection[str], tags: inventory_registry.Tags
) -> bool:
    """A missing GPU blocks the provisioning of a node, but not a change of the layout alone."""
    driver = [row.tag for row in registry if row.role == "nvidia_driver"]
    return any(map(tags.select, driver)) and not {"gpu_node", "nvidia_driver"}.isdisjoint(enabled)


def _gpus(facts: t.Mapping[str, t.Any]) -> object:
    return facts.get("ansible_facts", {}).get("nvidia", {}).get("gpus")


def _unusable(facts: t.Mapping[str, t.Any], host: str) -> str:
    """Why the facts of the host could not be gathered; empty if they were."""
    why = str(facts.get("msg", "")).strip()
    if facts.get("unreachable"):
        remedy = "To continue without it, set gpu_node_skip, or add --limit '!%s'" % host
        return "it cannot be reached: %s. %s" % (why.rstrip("."), remedy)
    return "its facts cannot be gathered: %s" % why if facts.get("failed") else ""


def _cause(error: BaseException) -> str:
    """The innermost cause: Ansible's wrappers only add internal details. Before 2.19, it is in orig_exc."""
    inner = error.__cause__ or getattr(error, "orig_exc", None)
    return str(error) if inner is None else _cause(inner)
