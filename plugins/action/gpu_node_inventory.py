# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: select a host's roles, and validate its variables."""

from __future__ import annotations

import typing as t

from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action, Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import board_differences
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import registry as inventory_registry
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class _Roles(t.NamedTuple):
    enabled: list[str]
    validated: list[str]  # whose variables are validated
    selected: list[str]  # of the scope
    unrequested: list[str]
    unknown: list[str]  # problems
    compares_boards: bool


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
        preflight = arguments["check"] == "preflight"
        own = variables.get("hostvars", {}).get(variables.get("inventory_hostname"), {})
        values, unreadable = self._read(variables)
        roles = self._roles(values.get("gpu_node_roles"), own, variables)
        facts = arguments["facts"]
        why = _unusable(facts, str(variables.get("inventory_hostname")))
        why = "; ".join([*filter(None, [why]), *inventory_variables.forged(variables.get("ansible_facts", {}))])
        # Some machines show no GPUs before the driver is installed.
        compares = not why and (_gpus(facts) or not preflight)
        differences = board_differences.of_variables(values, _gpus(facts)) if compares else []
        found = inventory_variables.NOTHING
        if roles.validated or not roles.enabled:
            names = [*dict.fromkeys(["gpu_node", *roles.validated])]
            # The layout does not fit other boards either; the role compares it with the GPUs.
            found = inventory_variables.check(variables, values, unreadable, names, compares_layout=not differences)
        problems = [*found.problems, *roles.unknown, *filter(None, [why])]
        if "gpu_node" in found.invalid:
            differences = []  # of values that are invalid
        elif roles.compares_boards and not why:
            problems.extend(differences)
            differences = []
        if preflight:
            host = host_of(str(variables.get("inventory_hostname")), {**values, **facts})
            problems.extend(dra.of_variables(host, values))
        excluded = {"gpu_node", *found.invalid}
        if found.layout and preflight:
            excluded.add("nvidia_mig")  # its own preflight would repeat them
        return {
            "problems": problems,
            "selected": roles.selected,
            "roles": [] if why else [role for role in roles.selected if role not in excluded],
            "unrequested": roles.unrequested,
            "warnings": [
                *differences,
                *found.notices,
                *inventory_variables.without_effect(own, load_extra_vars(self._loader)),
            ],
        }

    def _roles(self, wanted: object, own: t.Collection[str], variables: Data) -> _Roles:
        """The roles by gpu_node_roles, the tags of the run, and the host's ``own`` variables."""
        registry = inventory_registry.rows(self._arguments["registry"])
        tags = inventory_registry.Tags(
            variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", []), self._task.tags
        )
        given = [row.role for row in registry if not inventory_variables.variables_of(row.role).isdisjoint(own)]
        unrequested = inventory_registry.unrequested(registry, wanted, tags, self._arguments["record"], given)
        enabled = [role for role in inventory_registry.enabled(registry, wanted) if role not in unrequested]
        if self._arguments["all_roles"]:
            enabled = [row.role for row in registry]
        selected = inventory_registry.selected(registry, enabled, tags)
        return _Roles(
            enabled=enabled,
            # The tag "always" validates the variables of all roles, without the roles' own checks.
            validated=enabled if "always" in tags.run else selected,
            selected=inventory_registry.of_scope(registry, selected, self._arguments["scope"]),
            unrequested=unrequested,
            unknown=inventory_registry.unknown(registry, wanted),
            compares_boards=_compares_boards(registry, enabled, tags),
        )

    def _read(self, variables: Data) -> tuple[Data, dict[str, str]]:
        """The values of the collection's variables, and an error for each that cannot be read."""
        values: Data = {}
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
        remedy = "To continue without it, set gpu_node_skip to unreachable, or add --limit '!%s'" % host
        return "it cannot be reached: %s. %s" % (why.rstrip("."), remedy)
    return "its facts cannot be gathered: %s" % why if facts.get("failed") else ""


def _cause(error: BaseException) -> str:
    """The innermost cause: Ansible's wrappers only add internal details. Before 2.19, it is in orig_exc."""
    inner = error.__cause__ or getattr(error, "orig_exc", None)
    return str(error) if inner is None else _cause(inner)
