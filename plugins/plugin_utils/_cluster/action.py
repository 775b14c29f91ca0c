# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The base of the action plugins that use the API of a cluster."""

from __future__ import annotations

from ...module_utils._common.data import Data
from .._common.action import Action
from .api import Api


class ClusterAction(Action):
    """An action plugin that uses the API of a cluster, with the access that the role gpu_cluster has recorded.

    Its task has ``delegate_to`` and ``become`` of connect.yml, which describes the record.
    """

    _api: Api
    _on_controller: bool  # whether the controller's own Python sends the requests

    def run(self, tmp: object = None, task_vars: Data | None = None) -> Data:
        variables = task_vars or {}
        access = variables.get("gpu_cluster_access")
        self._on_controller = access is None or access["on_controller"]
        if access is not None:  # otherwise, the environment of ansible-playbook has credentials
            variables = self._with_access(access, variables)
        self._api = Api(self, variables)
        try:
            return super().run(tmp, variables)
        finally:
            self._api.close()

    def _with_access(self, access: Data, variables: Data) -> Data:
        """The variables with the recorded Python. The recorded environment becomes the task's."""
        self._task.environment = [*(self._task.environment or []), access["environment"]]
        python = {"ansible_python_interpreter": access["python"]}
        hosts = variables.get("ansible_delegated_vars", {})
        delegated = {host: {**own, **python} for host, own in hosts.items()}
        return {**variables, **python, "ansible_delegated_vars": delegated}
