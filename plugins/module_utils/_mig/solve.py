# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Placement search for the desired GPU instances. Exhaustive, because the grids are tiny."""

from __future__ import annotations

import typing as t

from .model import Board, DesiredInstance, Placement

Score = t.Callable[[DesiredInstance, Placement], int]
# The smallest is the best: negated score, negated room, placements.
_Rank = t.Tuple[int, t.Tuple[int, ...], t.Tuple[Placement, ...]]


def options(desired: DesiredInstance) -> t.Tuple[Placement, ...]:
    """The possible placements of a desired GPU instance."""
    places = sorted(desired.profile.placements)
    return tuple(place for place in places if desired.start is None or place.start == desired.start)


def arrangeable(instances: t.Iterable[DesiredInstance]) -> bool:
    """Whether the instances can be placed on the grid without overlap."""
    items = sorted((tuple(_mask(place) for place in options(desired)) for desired in instances), key=len)
    dead: t.Set[t.Tuple[int, int]] = set()

    def fits(index: int, used: int) -> bool:
        if index == len(items):
            return True
        if (index, used) in dead:
            return False
        for mask in items[index]:
            if not mask & used and fits(index + 1, used | mask):
                return True
        dead.add((index, used))
        return False

    return fits(0, 0)


class Search:
    """The best placements for a set of GPU instances on a board.

    The best result for the instances from the nth on depends only on the occupied units,
    so it is computed once for each pair of n and occupied units. The search is exact and
    small: at most 2**units states for each instance, a few hundred on known boards.

    Criteria, in this order: the highest sum of scores; the most room, that is, the most
    placements for the largest profile that could still be created, then for the next
    smaller one and so on; the lowest starts in the order of the instances.
    """

    def __init__(self, board: Board, instances: t.Iterable[DesiredInstance], score: Score) -> None:
        self.instances = tuple(sorted(instances, key=DesiredInstance.order))
        self._options = tuple(
            tuple((_mask(place), score(desired, place), place) for place in options(desired))
            for desired in self.instances
        )
        self._classes = _room_classes(board, self.instances)
        self._rooms: t.Dict[int, t.Tuple[int, ...]] = {}
        self._ranks: t.Dict[t.Tuple[int, int], t.Optional[_Rank]] = {}

    def solve(self) -> t.Optional[t.Tuple[Placement, ...]]:
        """A placement for each of ``instances``, or None if they do not fit together."""
        rank = self._best(0, 0)
        return None if rank is None else rank[2]

    def _best(self, index: int, used: int) -> t.Optional[_Rank]:
        if index == len(self._options):
            return (0, self._room(used), ())
        key = (index, used)
        if key not in self._ranks:
            best: t.Optional[_Rank] = None
            for mask, score, place in self._options[index]:
                rest = None if mask & used else self._best(index + 1, used | mask)
                if rest is not None:
                    rank = (rest[0] - score, rest[1], (place,) + rest[2])
                    if best is None or rank < best:
                        best = rank
            self._ranks[key] = best
        return self._ranks[key]

    def _room(self, used: int) -> t.Tuple[int, ...]:
        if used not in self._rooms:
            self._rooms[used] = tuple(-sum(not mask & used for mask in masks) for masks in self._classes)
        return self._rooms[used]


def _mask(place: Placement) -> int:
    """The units of a placement as bits."""
    return ((1 << place.size) - 1) << place.start


def _room_classes(board: Board, instances: t.Sequence[DesiredInstance]) -> t.Tuple[t.Tuple[int, ...], ...]:
    """Placements of the profiles for which compute slices remain, largest profile first, each geometry once."""
    left = board.compute_slices - sum(desired.profile.slices for desired in instances)
    geometries = {
        (-max(place.size for place in profile.placements), -profile.slices, tuple(sorted(profile.placements)))
        for profile in board.profiles
        if profile.placements and profile.slices <= left
    }
    return tuple(tuple(_mask(place) for place in places) for _size, _slices, places in sorted(geometries))
