# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records the duration of each task of a playbook, and the hosts and modules that it ran, for site_runs.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: task_times
type: aggregate
short_description: Writes the seconds of each task to the file that TASK_TIMES names
description: For measurements.
"""

import json
import os
import time
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_times"

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[dict[str, t.Any]] = []
        self.started = 0.0

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self._end()
        role = (task.get_path() or "").rpartition("/roles/")[2].partition("/")[0]
        self.tasks.append({"name": task.get_name(), "role": role, "hosts": 0, "modules": 0, "changed": 0})
        self.started = time.perf_counter()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        if self.tasks:
            # A module returns its arguments; an action that runs only on the controller does not.
            ran = any("invocation" in each for each in result._result.get("results", [result._result]))
            self.tasks[-1]["hosts"] += 1
            self.tasks[-1]["modules"] += ran
            self.tasks[-1]["changed"] += bool(result._result.get("changed"))

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._end()
        with open(os.environ["TASK_TIMES"], "w", encoding="utf-8") as out:
            json.dump(self.tasks, out)

    def _end(self) -> None:
        if self.tasks:
            self.tasks[-1].setdefault("seconds", time.perf_counter() - self.started)
