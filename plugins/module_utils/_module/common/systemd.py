# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What systemctl reports about units."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .commands import Run


def properties(run: Run, unit: str, *names: str) -> t.Dict[str, str]:
    """These properties of a unit. Those that systemctl does not print are missing; all, on a node without systemd."""
    _status, output, _error = run(["systemctl", "show", "--property=" + ",".join(names), unit])
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def running(run: Run, names: t.Sequence[str]) -> t.List[str]:
    """The running units among these names or patterns, sorted. None on a node without systemd."""
    if not names:
        return []  # systemctl would list all
    status, output, _error = run(
        ["systemctl", "list-units", "--state=running", "--plain", "--no-legend", "--full", *names]
    )
    return sorted(line.split()[0] for line in output.splitlines() if line.strip()) if status == 0 else []
