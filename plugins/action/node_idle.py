# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: fail while processes use the GPUs of a node, or wait and show the progress."""

from __future__ import annotations

import time

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import Reasons, show
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.truth import is_true

_PAUSE = 10  # seconds between checks
_CLIENTS = "nvidia_mig_clients"
_REFUSAL = (
    "%s: %s. The role does not continue, because it would interrupt them (%s). Drain the node, or set %s, and run this "
    "again"
)


class ActionModule(Action):
    ARGUMENTS = {
        "role": {"type": "str", "required": True},
        "reasons": {"type": "list", "elements": "str", "required": True},
        "drains": {"type": "bool", "default": True},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        drains = arguments.pop("drains")
        wait, interrupt = (arguments["role"] + suffix for suffix in ("_busy_wait", "_interrupt"))
        given = {
            name: self._templar.template(variables[name]) for name in (wait, interrupt, _CLIENTS) if name in variables
        }
        if not arguments["reasons"] or is_true(given.get(interrupt)):
            return {"skipped": True}
        if _CLIENTS in given:
            arguments["units"] = given[_CLIENTS]
        found = self._last_check(arguments, 0 if self._task.check_mode else int(given[wait]), variables)
        if found.get("clients"):
            names = " or ".join(name for name in (wait, interrupt) if name in given)
            text = _REFUSAL % (variables["inventory_hostname"], found["msg"], "; ".join(arguments["reasons"]), names)
            if not self._task.check_mode or not (drains or int(given[wait])):
                return {**found, "failed": True, "msg": text}
            # A drain or the wait, which check mode skips, may end them.
            found["warnings"] = [*found.get("warnings", []), "Would fail now: " + text]
        return found

    def _last_check(self, arguments: Data, wait: int, variables: Data) -> Data:
        """The result of the module once it finds no process or has failed, or at the end of the time."""
        end, reasons = time.monotonic() + wait, Reasons(show)
        while True:
            found: Data = self._execute_module(module_args=arguments, task_vars=variables)
            left = end - time.monotonic()
            if not found.get("clients") or left <= 0:
                return found
            reasons.show("%s: waiting, %d s left" % (variables["inventory_hostname"], left), found["msg"])
            time.sleep(min(_PAUSE, left))
