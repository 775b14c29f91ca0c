# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The processes of the node, and the units and pods that they belong to."""

from __future__ import annotations

import os
import re
import typing as t

PROCESSES = "/proc"
# The control group of a pod, by systemd (kubepods-pod6f1d..._..._.slice) or cgroupfs (kubepods/pod6f1d...-...).
_POD = re.compile(r"\bkubepods\b.*?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})\b")


def outside_units(processes: t.Sequence[int], units: t.Sequence[str]) -> t.List[int]:
    """The processes that do not belong to one of these units, according to their control groups."""
    found = []
    for pid in processes:
        try:
            groups = re.split(r"[/\n]", _groups(pid))
        except OSError:  # it has ended
            continue
        if not set(groups).intersection(units):
            found.append(pid)
    return found


def pod_of(pid: int) -> t.Optional[str]:
    """The UID of the pod that a process belongs to; None if it belongs to none, or has ended."""
    try:
        found = _POD.search(_groups(pid))
    except OSError:
        return None
    return found.group(1).replace("_", "-") if found else None


def _groups(pid: int) -> str:
    with open(os.path.join(PROCESSES, str(pid), "cgroup"), encoding="utf-8") as file:
        return file.read()
