# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: fail if facts of the host replace variables."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type hints
    _VALID_ARGS = frozenset[str]()
    _requires_connection = False

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        result.update(changed=False)
        for problem in inventory_variables.forged(variables["ansible_facts"]):
            result.update(failed=True, msg=problem)  # without inventory_hostname, which may be forged
        return result
