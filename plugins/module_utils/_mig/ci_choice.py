# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which compute instance profiles to create on a live GPU instance, and where."""

from __future__ import annotations

import typing as t

from .compute import pack
from .model import ComputeInstance, Placement

if t.TYPE_CHECKING:
    from .backend import CiProfile


class Choice(t.NamedTuple):
    """One compute instance to create. ``start`` None: the driver finds the place."""

    profile: CiProfile
    start: t.Optional[int]


def choose(
    offered: t.Sequence[CiProfile],
    slices: t.Sequence[int],
    present: t.Sequence[ComputeInstance],
    reduced: bool = False,
) -> t.Tuple[Choice, ...]:
    """The profiles for compute instances of these slice counts (descending), beside those present.

    A slice count may come with different numbers of multiprocessors: a 2g.20gb of an H100
    offers one slice with 16 of them twice, and with 26 once. One that is alone gets the most;
    several get the kind of which there can be most, because only those are sure to go
    together. With ``reduced``, only the kind of that name is used, and without it never. Raises
    LookupError, with the slice count, where a count is not offered.
    """
    alone = len(slices) == 1 and not present
    kinds = [profile for profile in offered if profile.reduced == reduced]
    by_size = {size: _best(kinds, size, alone) for size in set(slices)}
    starts = _starts(by_size, slices, present)
    return tuple(Choice(by_size[size], start) for size, start in zip(slices, starts))


def _best(offered: t.Sequence[CiProfile], size: int, alone: bool) -> CiProfile:
    candidates = [profile for profile in offered if profile.slices == size]
    if not candidates:
        raise LookupError(size)
    if alone:
        return min(candidates, key=lambda profile: (-profile.multiprocessors, profile.id))
    return min(candidates, key=lambda profile: (-profile.max_instances, -profile.multiprocessors, profile.id))


def _starts(
    by_size: t.Mapping[int, CiProfile], slices: t.Sequence[int], present: t.Sequence[ComputeInstance]
) -> t.Sequence[t.Optional[int]]:
    """Where they go; left to the driver where it does not tell all places, or may know better."""
    taken = tuple(ci.placement for ci in present if ci.placement is not None)
    places = {
        size: sorted(Placement(start, length) for start, length in profile.placements)
        for size, profile in by_size.items()
    }
    if len(taken) < len(present) or not all(places.values()):
        return [None] * len(slices)
    found = pack(slices, taken, places)
    return [None] * len(slices) if found is None else [place.start for place in found]
