# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: validate a host's variables."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils import _inventory


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset({"roles"})

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            {"roles": {"type": "list", "elements": "str", "required": True}}
        )
        variables = task_vars or {}
        values: dict[str, t.Any] = {}
        unreadable: dict[str, str] = {}
        for name in sorted(_inventory.known().intersection(variables)):
            try:
                values[name] = self._templar.template(variables[name])
            except Exception as error:  # templates and vaults can raise any exception
                unreadable[name] = _cause(error)
        found = _inventory.judge(variables, values, unreadable, arguments["roles"])
        result.update(changed=False, problems=found.problems, misspelled=found.misspelled)
        if found.notices:
            result["warnings"] = found.notices
        return result


def _cause(error: BaseException) -> str:
    """The innermost cause: Ansible's wrappers only add internal details. Before 2.19 an attribute of theirs holds it."""
    inner = error.__cause__ or getattr(error, "orig_exc", None)
    return str(error) if inner is None else _cause(inner)
