# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read an EnvironmentFile as systemd does: unlike a shell, it neither expands nor executes anything."""

from __future__ import annotations

import re
import typing as t

# One piece of a value: single quotes, double quotes, or no quotes. A backslash before a newline continues the line.
_SINGLE = re.compile(r"'([^']*)(?:'|$)")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|$)', re.DOTALL)
_BARE = re.compile(r"(?:[^\\\n]|\\.|\\$)+", re.DOTALL)
_BLANKS = re.compile(r"[ \t\r]*")
_ASSIGNMENT = re.compile(r"[ \t\r]*([^=\n]*?)[ \t\r]*=[ \t\r]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(text: str) -> t.Dict[str, str]:
    """Return the variables. Lines that assign nothing are ignored, and the last assignment of a name wins."""
    found: t.Dict[str, str] = {}
    place = 0
    while place < len(text):
        assignment = _ASSIGNMENT.match(text, place)
        if not assignment or text[place:].lstrip(" \t\r").startswith(("#", ";")):
            place = _next_line(text, place)
            continue
        value, place = _value(text, assignment.end())
        if _NAME.fullmatch(assignment.group(1)):
            found[assignment.group(1)] = value
    return found


def _next_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1


def _value(text: str, place: int) -> t.Tuple[str, int]:
    """Return the value that starts here, and where the next line starts. Quoted pieces are joined."""
    value = ""
    while place < len(text) and text[place] != "\n":
        single, double = _SINGLE.match(text, place), _DOUBLE.match(text, place)
        if single:
            value += single.group(1)
            place = single.end()
        elif double:
            value += re.sub(r'\\(["\\`$\n])', lambda found: found.group(1).strip("\n"), double.group(1))
            place = double.end()
        else:
            bare = t.cast("re.Match[str]", _BARE.match(text, place))  # it matches whatever is not a newline
            value += _unescape(bare.group(0))
            place = bare.end()
        blanks = _BLANKS.match(text, place)
        place = blanks.end() if blanks else place
    return value, place + 1


def _unescape(bare: str) -> str:
    """A backslash escapes the next character. Trailing blanks are dropped, unless they are escaped."""
    pieces = re.findall(r"\\.|[^\\]", bare, re.DOTALL)
    while pieces and pieces[-1] in " \t\r":
        pieces.pop()
    return "".join(piece[1:].strip("\n") if piece[0] == "\\" else piece for piece in pieces)
