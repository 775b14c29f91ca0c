# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: plan the installation of RKE2 on a node, or list why it is impossible."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.module_utils._mig import words
from ansible_collections.gpufleet.node.plugins.plugin_utils import _inventory, _rke2_plan

_ARGUMENTS = {"states": {"type": "list", "elements": "dict", "required": True}}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        settings, problems = _inventory.of_role("rke2", variables, self._templar.template)
        plan: dict[str, t.Any] = {}
        if not problems:
            wanted = {name.removeprefix("rke2_"): value for name, value in settings.items()}
            servers = variables["groups"].get(wanted["servers_group_name"], ())
            node = _node(variables, servers, arguments["states"])
            if node.name in node.states:
                plan, problems, notices = _rke2_plan.plan(wanted, node)
                if notices:
                    result["warnings"] = notices
            else:
                problems = ["the host cannot be reached, so its state is unknown"]
        if int(variables["ansible_facts"].get("effective_user_id", 0)) != 0:
            problems.insert(0, words.NOT_ROOT)
        result.update(changed=False, plan=plan, problems=problems)
        return result


def _node(
    variables: t.Mapping[str, t.Any], servers: t.Sequence[str], results: t.Sequence[t.Mapping[str, t.Any]]
) -> _rke2_plan.Node:
    facts = variables["ansible_facts"]
    return _rke2_plan.Node(
        name=variables["inventory_hostname"],
        architecture=facts["architecture"],
        distribution="%s %s" % (facts["distribution"], facts["distribution_version"]),
        enterprise_linux=facts["distribution_major_version"] if facts["os_family"] == "RedHat" else "",
        groups=variables["groups"],
        play_hosts=variables["ansible_play_hosts_all"],
        addresses={host: _address(variables["hostvars"][host].get("ansible_facts", {})) for host in servers},
        states={each["__rke2_host"]: each["state"] for each in results if "state" in each},
    )


def _address(facts: t.Mapping[str, t.Any]) -> str:
    """The address of the host's default route."""
    return str(facts.get("default_ipv4", {}).get("address") or facts.get("default_ipv6", {}).get("address") or "")
