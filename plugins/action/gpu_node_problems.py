# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: fail if preflight or verify found problems, with one message for all of them."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils import _report
from ansible_collections.gpufleet.node.plugins.plugin_utils._output import clean

_ARGUMENTS = {"check": {"type": "str", "required": True, "choices": ["preflight", "verify"]}}
_FACT = "gpu_node_problems"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no type hints
    _VALID_ARGS = frozenset(_ARGUMENTS)

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        if arguments["check"] == "verify":
            message = _report.verify(variables["inventory_hostname"], variables[_FACT])
        else:
            hosts = variables["ansible_play_hosts_all"]
            message = _report.preflight({host: variables["hostvars"][host].get(_FACT) for host in hosts})
        result.update(changed=False)
        if message:
            result.update(failed=True, msg=message)
        return result
