# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: delete pods that a controller replaces, and wait until they are gone."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.api import Api, Progress, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import Pod
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean, show

_TIMEOUT = 300  # seconds for each step
_ARGUMENTS = {
    "pods": {"type": "list", "elements": "dict", "required": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        pods = [Pod(**each) for each in arguments["pods"]]
        result.update(changed=bool(pods))
        if self._task.check_mode:
            return result
        try:
            Api(self, task_vars).restart(pods, Progress(_TIMEOUT, show))
        except Unreadable as error:
            result.update(failed=True, msg=str(error))
        return result
