# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The result of a task, also of one that has failed after changes."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass
class TaskResult:
    changed: bool = False
    warnings: list[str] = dataclasses.field(default_factory=list)
    problem: str = ""  # why the task has failed

    def of_task(self) -> dict[str, t.Any]:
        """The return values of the task."""
        out: dict[str, t.Any] = {"changed": self.changed}
        if self.warnings:
            out["warnings"] = self.warnings
        if self.problem:
            out.update(failed=True, msg=self.problem)
        return out
