# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare objects of the cluster with those that a change would write. Unlike dryRun, this needs no permissions."""

from __future__ import annotations

import typing as t

from .releases import Data


def has_object(existing: Data, wanted: Data) -> bool:
    """Whether an object exists and has all the wanted values. Keys that the API or someone else has added are ignored."""
    return any(_includes(item, wanted) for item in existing["resources"])


def _includes(item: t.Any, wanted: object) -> bool:
    if isinstance(wanted, dict) and isinstance(item or {}, dict):
        return all(_includes((item or {}).get(key), value) for key, value in wanted.items())
    return bool(item == wanted)
