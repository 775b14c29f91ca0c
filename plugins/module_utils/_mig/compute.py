# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compute instances inside one GPU instance: their placement, and which of them are kept."""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter

from .model import ComputeInstance, GpuInstance, Placement

Places = t.Mapping[int, t.Sequence[Placement]]  # compute slices of a compute instance -> its placements


class Adjustment(t.NamedTuple):
    """Changes to the compute instances of a GPU instance that is kept."""

    keep: t.Tuple[int, ...]  # ids
    destroy: t.Tuple[int, ...]  # ids
    create: t.Tuple[int, ...]  # slice counts, descending
    reused_ids: int  # destroyed ids that the created ones reuse, and with them the UUIDs


def pack(
    slices: t.Sequence[int], taken: t.Tuple[Placement, ...], places: Places, after: int = -1
) -> t.Optional[t.Tuple[Placement, ...]]:
    """Free placements for compute instances of these sizes, in the order of ``slices``, or None.

    Neighbours of equal size are placed in ascending order, so that no combination is tried twice; the first
    of them starts after ``after``.
    """
    if not slices:
        return ()
    for place in places.get(slices[0], ()):
        if place.start > after and not any(place.overlaps(other) for other in taken):
            beyond = place.start if slices[1:2] == slices[:1] else -1
            rest = pack(slices[1:], taken + (place,), places, beyond)
            if rest is not None:
                return (place,) + rest
    return None


def adjust(
    instance: GpuInstance, desired: t.Sequence[int], busy: t.Container[int], places: Places, reduced: bool = False
) -> Adjustment:
    """Keep as much as possible. Priorities: busy compute instances, number kept, UUIDs, lowest ids.

    ``desired`` are slice counts that fit into an empty GPU instance; with ``reduced``
    they are of the kind with fewer multiprocessors.
    """
    present = sorted(instance.compute_instances, key=lambda ci: ci.id)
    usable = [ci for ci in present if ci.reduced == reduced]
    all_busy = sum(ci.id in busy for ci in usable)
    best: t.Optional[t.Tuple[t.Tuple[t.Any, ...], Adjustment]] = None
    for count in range(len(usable), -1, -1):
        for kept in itertools.combinations(usable, count):
            create = _missing(desired, kept)
            if create is None or not _room(create, kept, places):
                continue
            adjustment = _adjustment(present, kept, create)
            rank = (-sum(ci.id in busy for ci in kept), -count, -adjustment.reused_ids, adjustment.keep)
            if best is None or rank < best[0]:
                best = (rank, adjustment)
        # Keeping fewer is only better if it preserves another busy one.
        if best is not None and best[0][0] == -all_busy:
            break
    if best is None:
        raise ValueError("compute instances %s do not fit into an empty GPU instance" % (tuple(desired),))
    return best[1]


def new_ids(taken: t.Container[int], count: int) -> t.Tuple[int, ...]:
    """The ids that the driver assigns to new compute instances: the lowest free ones."""
    return tuple(itertools.islice((number for number in itertools.count() if number not in taken), count))


def _missing(desired: t.Sequence[int], kept: t.Sequence[ComputeInstance]) -> t.Optional[t.Tuple[int, ...]]:
    """Slice counts to create in addition to the kept ones, descending; None if a kept one is not desired."""
    need = Counter(desired)
    need.subtract(ci.slices for ci in kept)
    if min(need.values(), default=0) < 0:
        return None
    return tuple(sorted(need.elements(), reverse=True))


def _room(create: t.Sequence[int], kept: t.Sequence[ComputeInstance], places: Places) -> bool:
    """Whether the missing ones fit in addition to the kept ones. False if the placement of a kept one is unknown."""
    if not create:
        return True
    taken = tuple(ci.placement for ci in kept if ci.placement is not None)
    return len(taken) == len(kept) and pack(create, taken, places) is not None


def _adjustment(
    present: t.Sequence[ComputeInstance], kept: t.Sequence[ComputeInstance], create: t.Tuple[int, ...]
) -> Adjustment:
    keep = tuple(ci.id for ci in kept)
    destroy = tuple(ci.id for ci in present if ci.id not in keep)
    reused_ids = len(set(new_ids(keep, len(create))) & set(destroy))
    return Adjustment(keep, destroy, create, reused_ids)
