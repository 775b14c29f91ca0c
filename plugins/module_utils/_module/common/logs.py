# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Logs and the output of programs, to which any user or container of the node may have contributed."""

from __future__ import annotations

import typing as t

LINES = 500
CHARACTERS = 2000  # of a line


def lines(text: str) -> t.List[str]:
    """The last lines, each cut to a length that can be searched."""
    return [line[:CHARACTERS] for line in text.splitlines()[-LINES:]]
