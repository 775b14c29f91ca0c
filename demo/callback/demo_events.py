# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the events of a playbook run, one JSON object per line, for playbooks.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: demo_events
type: aggregate
short_description: Writes events to the file that DEMO_EVENTS names
description: For the demo, which shows a selection of events and writes the full output to a file.
"""

import json
import os
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "demo_events"

    def __init__(self) -> None:
        super().__init__()
        self._out = open(os.environ["DEMO_EVENTS"], "a", encoding="utf-8")
        self._task: dict[str, str] = {}
        self._play = ""
        self._diff = ""

    def _write(self, kind: str, **fields: t.Any) -> None:
        self._out.write(json.dumps({"kind": kind, **self._task, **fields}) + "\n")
        self._out.flush()

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._play = play.get_name()

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        role = task._role.get_name() if task._role else ""
        name = task.name or task.action
        action = str(task.action).rpartition(".")[2]
        self._task = {"play": self._play, "role": role.rpartition(".")[2], "task": name, "action": action}
        self._diff = ""
        self._write("task")

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_on_file_diff(self, result: t.Any) -> None:
        results = result._result.get("results") or [result._result]
        diffs = [each["diff"] for each in results if each.get("diff") and each.get("changed")]
        self._diff = "".join(self._get_diff(diff) for diff in diffs)

    def v2_runner_on_ok(self, result: t.Any) -> None:
        if result._result.get("changed"):
            self._write("changed", diff=self._diff, message=str(result._result.get("msg", "")))
        else:
            self._write("ok")

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._write("failed", message=str(result._result.get("msg", "")))

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self._write("failed", message=str(result._result.get("msg", "")))

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._task = {}
        self._write("recap", hosts={host: stats.summarize(host) for host in stats.processed})
