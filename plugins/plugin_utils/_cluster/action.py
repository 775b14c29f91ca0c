# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The base of the action plugins that use the API of a cluster."""

from __future__ import annotations

from ...module_utils._mig.data import Data
from .._common.action import Action
from .api import Api


class ClusterAction(Action):
    """An action plugin that uses the API of a cluster."""

    _api: Api

    def run(self, tmp: object = None, task_vars: Data | None = None) -> Data:
        self._api = Api(self, task_vars or {})
        try:
            return super().run(tmp, task_vars)
        finally:
            self._api.close()
