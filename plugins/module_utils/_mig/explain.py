# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Explain why instances do not fit on a GPU together, and find the nearest set that does."""

from __future__ import annotations

import typing as t
from collections import Counter

from .board import attribute, ci_places, exceeded_limits
from .compute import pack
from .model import PLAIN, WHOLE, Board, DesiredInstance
from .profile import compute_name
from .solve import arrangeable, options


def describe(instances: t.Iterable[DesiredInstance]) -> str:
    """A set of instances as in a layout, largest first: ``3g.40gb: 2, 1g.10gb: 1``."""
    counts = Counter(instances)
    return (
        ", ".join("%s: %d" % (_name(desired), counts[desired]) for desired in sorted(counts, key=DesiredInstance.order))
        or "nothing"
    )


def refusal(board: Board, instances: t.Iterable[DesiredInstance]) -> t.Optional[str]:
    """Why the instances do not fit on an empty GPU of this board, with the nearest set that fits; None if they fit."""
    desired = sorted(instances, key=DesiredInstance.order)
    reasons = _reasons(board, desired)
    if not reasons:
        return None
    return "%s does not fit: %s; %s" % (describe(desired), "; ".join(reasons), _nearest(board, desired))


def _name(desired: DesiredInstance) -> str:
    name = desired.profile.name
    if desired.reduced:
        name = compute_name(desired.profile, desired.profile.slices, True)
    elif desired.compute_instances != WHOLE:
        name += " (compute instances %s)" % "+".join("%dc" % slices for slices in desired.compute_instances)
    return name if desired.start is None else "%s at %d" % (name, desired.start)


def _reasons(board: Board, desired: t.Sequence[DesiredInstance]) -> t.List[str]:
    """Problems of single instances, else of their totals, else of their placements."""
    out = [reason for item in sorted(set(desired), key=DesiredInstance.order) for reason in _alone(item)]
    out = out or exceeded_limits(board, [item.profile for item in desired])
    if not out and not arrangeable(desired):
        out = ["they overlap wherever they are placed (%s)" % _offers(desired)]
    return out


def _alone(item: DesiredInstance) -> t.Iterator[str]:
    """Problems of one instance by itself."""
    if not options(item):
        yield "%s cannot start at %s (%s)" % (item.profile.name, item.start, _offers([item]))
    if pack(item.slices, (), ci_places(item.profile.slices)) is None:
        yield "compute instances %s do not fit into one %s, which has %d compute slices" % (
            "+".join("%dc" % slices for slices in item.slices),
            item.profile.name,
            item.profile.slices,
        )


def _offers(desired: t.Iterable[DesiredInstance]) -> str:
    """The possible placements of the profiles of these instances."""
    profiles = {item.profile.id: item.profile for item in sorted(desired, key=DesiredInstance.order)}
    return ", ".join(
        "%s: {%s}:%d"
        % (
            profile.name,
            ",".join(str(place.start) for place in sorted(profile.placements)),
            max((place.size for place in profile.placements), default=0),
        )
        for profile in profiles.values()
    )


def _fits(board: Board, desired: t.Sequence[DesiredInstance]) -> bool:
    return not exceeded_limits(board, [item.profile for item in desired]) and arrangeable(desired)


def _nearest(board: Board, desired: t.Sequence[DesiredInstance]) -> str:
    """The remedy: the same profiles with fewer constraints, else the largest subset that fits and what may be added."""
    for what, looser in (
        ("without the starts", [item._replace(start=None) for item in desired]),
        ("with whole compute instances", [item._replace(compute_instances=WHOLE) for item in desired]),
        ("without the starts and with whole compute instances", [DesiredInstance(item.profile) for item in desired]),
    ):
        if not _reasons(board, looser):
            return "it fits %s" % what
    part = _largest_part(board, desired)
    more = _additions(board, part)
    if not part:
        return "none of it fits; the GPU has room for %s" % describe(more)
    text = "nearest that fits: %s" % describe(part)
    return "%s, with room for %s" % (text, describe(more)) if more else text


def _largest_part(board: Board, desired: t.Sequence[DesiredInstance]) -> t.List[DesiredInstance]:
    """The subset that fits with the most instances, then the most compute slices, then the most memory."""
    counts = Counter(item for item in desired if not list(_alone(item)))
    kinds = sorted(counts, key=DesiredInstance.order)
    best: t.List[DesiredInstance] = []
    best_rank: t.Tuple[int, int, int] = (0, 0, 0)

    def grow(index: int, chosen: t.List[DesiredInstance]) -> None:
        nonlocal best, best_rank
        rank = (len(chosen), sum(i.profile.slices for i in chosen), sum(i.profile.memory_mib for i in chosen))
        if rank > best_rank:
            best, best_rank = chosen, rank
        for later in range(index, len(kinds)):
            kind = kinds[later]
            if chosen.count(kind) < counts[kind] and _fits(board, chosen + [kind]):
                grow(later, chosen + [kind])

    grow(0, [])
    return best


def _additions(board: Board, part: t.Sequence[DesiredInstance]) -> t.List[DesiredInstance]:
    """Instances that fit in addition, the largest profile without attributes first."""
    added: t.List[DesiredInstance] = []
    plain = [DesiredInstance(profile) for profile in board.profiles if attribute(profile) == PLAIN]
    for candidate in sorted(plain, key=DesiredInstance.order):
        while _fits(board, [*part, *added, candidate]):
            added.append(candidate)
    return added
