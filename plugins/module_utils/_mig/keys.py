# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Keys of the mappings that users write: both spellings, and rejection of unknown keys."""

from __future__ import annotations

import typing as t

from .._common.text import cut, did_you_mean, nearest, short
from .errors import LayoutError


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
            raise LayoutError(
                "%s has the unknown key %s%s: use %s"
                % (where, cut(key), did_you_mean(nearest(key, known)), ", ".join(known))
            )
