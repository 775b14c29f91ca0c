# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: whether the user of the kubeconfig may drain nodes."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import permissions
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.api import Api, Unreadable, unreachable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean

_ARGUMENTS = {
    "may_be_missing": {"type": "bool", "default": False},
    "on_controller": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        reviews = permissions.reviews(permissions.of_drain())
        try:
            answer = Api(self, task_vars).call("kubernetes.core.k8s", resource_definition=reviews)
            problem = permissions.problem(answer["result"]["results"], permissions.BIND)
        except Unreadable as error:
            problem = unreachable({"msg": str(error)}, **arguments)
        result.update(changed=False, problems=[problem] if problem else [])
        return result
