# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The processes of the node, and the units that they belong to."""

from __future__ import annotations

import os
import re
import typing as t

PROCESSES = "/proc"


def outside_units(processes: t.Sequence[int], units: t.Sequence[str]) -> t.List[int]:
    """The processes that do not belong to one of these units, according to their control groups."""
    found = []
    for pid in processes:
        try:
            with open(os.path.join(PROCESSES, str(pid), "cgroup"), encoding="utf-8") as file:
                groups = re.split(r"[/\n]", file.read())
        except OSError:  # it has ended
            continue
        if not set(groups).intersection(units):
            found.append(pid)
    return found
