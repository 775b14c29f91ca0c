# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""User input: normalised keys, rejection of unknown keys, and values shortened for messages."""

from __future__ import annotations

import json
import typing as t

from .errors import LayoutError

_MAX_LIST_LENGTH = 1200  # characters of a message that a list may take, so that the whole stays under 1,500


def plain_keys(value: t.Dict[object, object], where: str) -> t.Dict[str, object]:
    """The mapping with dashes in keys replaced by underscores. It is an error if both spellings of a key exist."""
    out: t.Dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise LayoutError("%s has the key %s: write keys as strings" % (where, short(key)))
        plain = key.replace("-", "_")
        if plain in out:
            raise LayoutError("%s has %s in both spellings: write one of them" % (where, cut(plain)))
        out[plain] = item
    return out


def known_keys(value: t.Dict[str, object], known: t.Sequence[str], where: str) -> None:
    """Raise LayoutError with a suggestion if a key is unknown."""
    for key in value:
        if key not in known:
            import difflib  # only needed for the error

            close = difflib.get_close_matches(key, known, 1)
            raise LayoutError(
                "%s has the unknown key %s%s: use %s"
                % (where, cut(key), " (did you mean %s?)" % close[0] if close else "", ", ".join(known))
            )


def short(value: object) -> str:
    """A value as JSON, cut for a message. Encodes only the shown part, because aliases can expand to huge values."""
    text = ""
    try:
        for part in json.JSONEncoder(ensure_ascii=False, default=repr).iterencode(value):
            text += part
            if len(text) > 60:
                break
    except (TypeError, ValueError):  # keys and integers that JSON does not support, a value that contains itself
        return "a value of type %s" % type(value).__name__
    return cut(text)


def cut(text: str) -> str:
    """Text cut for a message."""
    return text if len(text) <= 60 else text[:57] + "..."


def listed(texts: t.Sequence[str], between: str = "; ", most: int = 4) -> str:
    """The first few texts, and the number of others."""
    shown: t.List[str] = []
    for text in texts:
        if len(shown) == most or (shown and sum(map(len, shown)) + len(text) > _MAX_LIST_LENGTH):
            shown.append("and %d more" % (len(texts) - len(shown)))
            break
        shown.append(text)
    return between.join(shown)
