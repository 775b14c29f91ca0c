# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select the compute instance profiles to create on a live GPU instance, and their placements."""

from __future__ import annotations

import typing as t

from .compute import pack
from .model import ComputeInstance, Placement

if t.TYPE_CHECKING:
    from .backend import CiProfile


class Choice(t.NamedTuple):
    """One compute instance to create. With ``start`` None, the driver chooses the placement."""

    profile: CiProfile
    start: t.Optional[int]


def choose(
    offered: t.Sequence[CiProfile],
    slices: t.Sequence[int],
    present: t.Sequence[ComputeInstance],
    reduced: bool = False,
) -> t.Tuple[Choice, ...]:
    """The profiles for new compute instances of these slice counts (descending), in addition to those present.

    Profiles with the same slice count may differ in multiprocessors: a 2g.20gb of an H100 offers
    one slice with 16 of them twice, and with 26 once. A single compute instance gets the most
    multiprocessors; several get the profile with the highest instance count, because only those
    are certain to fit together. Reduced profiles are used only, and always, with ``reduced``.
    Raises LookupError with the slice count if it is not offered.
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
    """The starts; None (the driver chooses) if it does not list all placements or may have a better choice."""
    taken = tuple(ci.placement for ci in present if ci.placement is not None)
    places = {
        size: sorted(Placement(start, length) for start, length in profile.placements)
        for size, profile in by_size.items()
    }
    if len(taken) < len(present) or not all(places.values()):
        return [None] * len(slices)
    found = pack(slices, taken, places)
    return [None] * len(slices) if found is None else [place.start for place in found]
