# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the action plugins that use the API of a cluster have in common."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from .._common.output import clean
from .api import Api
from .nodes import Data


class ClusterAction(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """An action plugin whose arguments ``ARGUMENTS`` describes, in the format of an argument specification."""

    ARGUMENTS: t.ClassVar[t.Mapping[str, Data]]
    _arguments: Data
    _api: Api

    @clean
    def run(self, tmp: object = None, task_vars: Data | None = None) -> Data:
        result: Data = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, self._arguments = self.validate_argument_spec(self.ARGUMENTS)
        self._api = Api(self, variables)
        return {**result, "changed": False, **self.perform(variables)}

    def perform(self, variables: Data) -> Data:
        """The result of the task. ``variables`` are those of its host."""
        raise NotImplementedError
