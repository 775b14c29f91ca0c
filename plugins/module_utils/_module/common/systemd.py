# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The output of systemctl."""

from __future__ import annotations

import typing as t


def properties(output: str) -> t.Dict[str, str]:
    """Parse what ``systemctl show`` prints for one unit. Properties that it does not print are missing."""
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
