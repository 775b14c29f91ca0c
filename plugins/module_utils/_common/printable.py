# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Text without control characters, which could change what a terminal shows."""

from __future__ import annotations

import typing as t

# C0 except tab and newline, delete, C1, characters that end a line or reorder the text around them, and those that XML rejects.
_REMOVED = dict.fromkeys(
    [
        *range(9),
        *range(11, 32),
        *range(127, 160),
        0x061C,
        *range(0x200E, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xFFFE, 0x10000),
    ]
)


def printable(value: t.Any) -> t.Any:
    """A copy without control characters in its strings; ``value`` consists of dicts, lists, tuples and scalars."""
    if isinstance(value, str):
        text = value.translate(_REMOVED)
        return value if text == value else text  # Ansible's tags stay on a string that does not change
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in value]
    return value
