# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Units of systemd, and the processes that belong to them."""

from __future__ import annotations

import os
import re
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

PROCESSES = "/proc"

# Runs systemctl with these arguments, and returns exit status, standard output and standard error.
Systemctl = t.Callable[..., t.Tuple[int, str, str]]


def systemctl_of(module: AnsibleModule) -> Systemctl:
    program = module.get_bin_path("systemctl")

    def systemctl(*arguments: str) -> t.Tuple[int, str, str]:
        if program is None:
            return 127, "", "systemctl is not installed"
        return t.cast("t.Tuple[int, str, str]", module.run_command([program, *arguments]))

    return systemctl


def running(systemctl: Systemctl, names: t.Sequence[str]) -> t.List[str]:
    """The running units among these, sorted. None on a node without systemd."""
    if not names:
        return []  # systemctl would list all
    status, output, _error = systemctl("list-units", "--state=running", "--plain", "--no-legend", "--full", *names)
    return sorted(line.split()[0] for line in output.splitlines() if line.strip()) if status == 0 else []


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
