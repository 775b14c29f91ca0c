# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The base of the collection's action plugins."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ...module_utils._common.data import Data
from .output import clean
from .refusal import Refusal


class Action(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """An action plugin whose arguments ``ARGUMENTS`` describes, in the format of an argument specification.

    With None, the module that the plugin runs validates them.
    """

    ARGUMENTS: t.ClassVar[t.Mapping[str, Data] | None] = {}
    _arguments: Data

    @clean
    def run(self, tmp: object = None, task_vars: Data | None = None) -> Data:
        result: Data = super().run(tmp, task_vars)
        self._arguments = dict(self._task.args)
        if self.ARGUMENTS is not None:
            _validation, self._arguments = self.validate_argument_spec(self.ARGUMENTS)
        try:
            found = self.perform(task_vars or {})
        except Refusal as error:
            found = {"failed": True, "msg": str(error)}
        return {**result, "changed": False, **found}

    def perform(self, variables: Data) -> Data:
        """The result of the task, which fails with a Refusal. ``variables`` are those of its host."""
        raise NotImplementedError
