# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Text for messages: values, lists, and the name that a misspelled one may mean."""

from __future__ import annotations

import json
import typing as t

# The roles use the same words, so that preflight lists this problem once.
NOT_ROOT = "Ansible does not run as root. Run as root (become: true)"

_MAX_LENGTH = 60  # characters of a value
_MAX_LIST_LENGTH = 1200  # characters of a message that a list may take, so that the whole stays under 1,500


def short(value: object) -> str:
    """A value as JSON, cut for a message. Encodes only the shown part, because aliases can expand to huge values."""
    text = ""
    try:
        for part in json.JSONEncoder(ensure_ascii=False, default=repr).iterencode(value):
            text += part
            if len(text) > _MAX_LENGTH:
                break
    except (TypeError, ValueError):  # keys and integers that JSON does not support, a value that contains itself
        return "a value of type %s" % type(value).__name__
    return cut(text)


def cut(text: str, most: int = _MAX_LENGTH) -> str:
    """Text cut for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(texts: t.Sequence[str], between: str = "; ", most: int = 4) -> str:
    """The first few texts, and the number of others."""
    shown: t.List[str] = []
    for text in texts:
        if len(shown) == most or (shown and sum(map(len, shown)) + len(text) > _MAX_LIST_LENGTH):
            shown.append("and %d more" % (len(texts) - len(shown)))
            break
        shown.append(text)
    return between.join(shown)


def nearest(name: str, known: t.Iterable[str], similarity: float = 0.6) -> t.List[str]:
    """The known name that is most similar to a misspelled one, if any is similar enough."""
    import difflib  # only needed for errors

    return difflib.get_close_matches(name, list(known), 1, similarity)


def did_you_mean(names: t.Sequence[str]) -> str:
    """The names that a misspelled one may mean, to follow it in a message; empty if there are none."""
    return " (did you mean %s?)" % " or ".join(map(cut, names)) if names else ""
