# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: describe how the GPUs and the boot restore of a node differ from the layout."""

from __future__ import annotations

import datetime
import hashlib

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action

_TIME = "%Y-%m-%d %H:%M:%S"


class ActionModule(Action):
    ARGUMENTS = {
        "compared": {"type": "dict", "required": True},
        "skip_busy": {"type": "bool", "required": True},
        "last_change": {"type": "str", "default": ""},
        "own_change": {"type": "str", "default": ""},
        "unit": {"type": "str", "default": ""},
        "unit_status": {"type": "dict", "default": {}},
        "restore": {"type": "dict", "default": {}},
    }

    def perform(self, variables: Data) -> Data:
        given = self._arguments
        compared = given["compared"]
        reasons = [each["reason"] for each in compared.get("deferred", ())]
        deferred = reasons if given["skip_busy"] else []
        problems = []
        if "unmatched" not in compared:
            problems.append("its MIG layout cannot be compared: %s" % compared["msg"])
        elif len(compared["unmatched"]) > len(deferred):
            last = history(given["last_change"], given["own_change"], datetime.datetime.now(datetime.timezone.utc))
            lines = ["GPUs do not match nvidia_mig_layout: " + ", ".join(compared["unmatched"])]
            lines += [*compared["changed_lines"], *reasons, last + ". Apply the layout with mig.yml"]
            problems.append("\n".join(lines))
        if given["unit"]:
            problems += boot_problems(given["unit"], given["unit_status"], given["restore"], bool(deferred))
        return {"problems": problems, "deferred": deferred}


def history(last_change: str, own_change: str, now: datetime.datetime) -> str:
    """When and by whom the role last changed the GPUs, according to the node's file, and whether this run did.

    ``own_change`` is the SHA-1 of the file that this run has written, if any.
    """
    last = last_change.strip()
    if not last:
        return "The role has not changed the GPUs since the node booted"
    if not own_change:
        relation = " (it is now %s)" % now.strftime(_TIME)
    elif hashlib.sha1(last_change.encode(), usedforsecurity=False).hexdigest() == own_change:
        relation = ", in this run"
    else:
        relation = ", after this run did"
    return "The role last changed the GPUs %s%s" % (last, relation)


def boot_problems(unit: str, status: Data, restore: Data, deferred: bool) -> list[str]:
    """Why the layout is not restored at boot, from the unit's status and the result of a dry run."""
    problems = []
    if status.get("UnitFileState") != "enabled":
        problems.append("its layout is not restored at boot: %s is not enabled. Run site.yml --tags mig" % unit)
    allowed = (0, 1) if deferred else (0,)  # 1: a GPU does not match the layout
    if restore.get("rc", 2) not in allowed:
        output = restore.get("stderr") or restore.get("stdout")
        if not output and problems:
            return problems  # its program is missing, like the unit
        text = "a dry run of the boot restore failed: %s. Run site.yml --tags mig"
        problems.append(text % (output or restore.get("msg", "")).strip().rstrip("."))
    return problems
