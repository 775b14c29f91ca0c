# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What people write: keys in either spelling and none that means nothing, values made short enough for a message."""

from __future__ import annotations

import json
import typing as t

from .errors import LayoutError


def plain_keys(value: t.Dict[object, object], where: str) -> t.Dict[str, object]:
    """The mapping with dashed keys in the underscored spelling; where both are written, that is an error."""
    out: t.Dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise LayoutError("%s has the key %r: write keys as strings" % (where, key))
        plain = key.replace("-", "_")
        if plain in out:
            raise LayoutError("%s has %s in both spellings: write one of them" % (where, plain))
        out[plain] = item
    return out


def known_keys(value: t.Dict[str, object], known: t.Sequence[str], where: str) -> None:
    """Raise LayoutError, with what was probably meant, if a key is none of the known ones."""
    for key in value:
        if key not in known:
            import difflib  # only a refusal needs it

            close = difflib.get_close_matches(key, known, 1)
            raise LayoutError(
                "%s has the unknown key %s%s: use %s"
                % (where, key, " (did you mean %s?)" % close[0] if close else "", ", ".join(known))
            )


def short(value: object) -> str:
    """A value as JSON, cut where a message would drown in it."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
