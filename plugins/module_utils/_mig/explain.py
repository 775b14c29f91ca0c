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
from .model import PLAIN, WHOLE, Board, Wanted
from .profile import compute_name
from .solve import arrangeable, options


def describe(instances: t.Iterable[Wanted]) -> str:
    """A set of instances as in a layout, largest first: ``3g.40gb: 2, 1g.10gb: 1``."""
    counts = Counter(instances)
    return (
        ", ".join("%s: %d" % (_name(wanted), counts[wanted]) for wanted in sorted(counts, key=Wanted.order))
        or "nothing"
    )


def refusal(board: Board, instances: t.Iterable[Wanted]) -> t.Optional[str]:
    """Why the instances do not fit on an empty GPU of this board, with the nearest set that fits; None if they fit."""
    wanted = sorted(instances, key=Wanted.order)
    reasons = _reasons(board, wanted)
    if not reasons:
        return None
    return "%s does not fit: %s; %s" % (describe(wanted), "; ".join(reasons), _nearest(board, wanted))


def _name(wanted: Wanted) -> str:
    name = wanted.profile.name
    if wanted.reduced:
        name = compute_name(wanted.profile, wanted.profile.slices, True)
    elif wanted.compute_instances != WHOLE:
        name += " (compute instances %s)" % "+".join("%dc" % slices for slices in wanted.compute_instances)
    return name if wanted.start is None else "%s at %d" % (name, wanted.start)


def _reasons(board: Board, wanted: t.Sequence[Wanted]) -> t.List[str]:
    """Problems of single instances, else of their totals, else of their placements."""
    out = [reason for item in sorted(set(wanted), key=Wanted.order) for reason in _alone(item)]
    out = out or exceeded_limits(board, [item.profile for item in wanted])
    if not out and not arrangeable(wanted):
        out = ["they overlap wherever they are placed (%s)" % _offers(wanted)]
    return out


def _alone(item: Wanted) -> t.Iterator[str]:
    """Problems of one instance by itself."""
    if not options(item):
        yield "%s cannot start at %s (%s)" % (item.profile.name, item.start, _offers([item]))
    if pack(item.slices, (), ci_places(item.profile.slices)) is None:
        yield "compute instances %s do not fit into one %s, which has %d compute slices" % (
            "+".join("%dc" % slices for slices in item.slices),
            item.profile.name,
            item.profile.slices,
        )


def _offers(wanted: t.Iterable[Wanted]) -> str:
    """The possible placements of the profiles of these instances."""
    profiles = {item.profile.id: item.profile for item in sorted(wanted, key=Wanted.order)}
    return ", ".join(
        "%s: {%s}:%d"
        % (
            profile.name,
            ",".join(str(place.start) for place in sorted(profile.placements)),
            max((place.size for place in profile.placements), default=0),
        )
        for profile in profiles.values()
    )


def _fits(board: Board, wanted: t.Sequence[Wanted]) -> bool:
    return not exceeded_limits(board, [item.profile for item in wanted]) and arrangeable(wanted)


def _nearest(board: Board, wanted: t.Sequence[Wanted]) -> str:
    """The remedy: the same profiles with fewer constraints, else the largest subset that fits and what may be added."""
    for what, looser in (
        ("without the starts", [item._replace(start=None) for item in wanted]),
        ("with whole compute instances", [item._replace(compute_instances=WHOLE) for item in wanted]),
        ("without the starts and with whole compute instances", [Wanted(item.profile) for item in wanted]),
    ):
        if not _reasons(board, looser):
            return "it fits %s" % what
    part = _largest_part(board, wanted)
    more = _additions(board, part)
    if not part:
        return "none of it fits; the GPU has room for %s" % describe(more)
    text = "nearest that fits: %s" % describe(part)
    return "%s, with room for %s" % (text, describe(more)) if more else text


def _largest_part(board: Board, wanted: t.Sequence[Wanted]) -> t.List[Wanted]:
    """The subset that fits with the most instances, then the most compute slices, then the most memory."""
    counts = Counter(item for item in wanted if not list(_alone(item)))
    kinds = sorted(counts, key=Wanted.order)
    best: t.List[Wanted] = []
    best_rank: t.Tuple[int, int, int] = (0, 0, 0)

    def grow(index: int, chosen: t.List[Wanted]) -> None:
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


def _additions(board: Board, part: t.Sequence[Wanted]) -> t.List[Wanted]:
    """Instances that fit in addition, the largest profile without attributes first."""
    added: t.List[Wanted] = []
    plain = [Wanted(profile) for profile in board.profiles if attribute(profile) == PLAIN]
    for candidate in sorted(plain, key=Wanted.order):
        while _fits(board, [*part, *added, candidate]):
            added.append(candidate)
    return added
