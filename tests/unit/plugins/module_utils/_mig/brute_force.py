# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every legal set of placed GPU instances of a board, by plain enumeration.

The planner is checked against it. It shares no code and no method with the planner:
it enumerates the grid unit by unit, and derives the media rules from the profiles' suffixes.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict

from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Board, Profile

State = t.FrozenSet[t.Tuple[int, int]]  # (profile id, start) of each GPU instance
Layout = t.Tuple[int, ...]  # profile ids, sorted


def legal(board: Board, chosen: t.Sequence[Profile]) -> bool:
    """Whether these counts of instances may exist at once, at any placement."""
    if sum(p.slices for p in chosen) > board.compute_slices or len(chosen) > board.max_gpu_instances:
        return False
    if any(count > profile.max_instances for profile, count in Counter(chosen).items()):
        return False
    suffixes = Counter(p.name.split("gb", 1)[1] for p in chosen)
    if suffixes["+me"] > 1 or suffixes["+me.all"] > 1:
        return False
    return not suffixes["+me.all"] or set(suffixes) <= {"+me.all", "-me"}


def states(board: Board) -> t.List[State]:
    """Every legal set of placed instances, including the empty one."""
    starting = defaultdict(list)
    for profile in board.profiles:
        for place in profile.placements:
            starting[place.start].append((profile, place.size))
    out = []

    def walk(unit: int, free_from: int, chosen: t.List[t.Tuple[Profile, int]]) -> None:
        if not legal(board, [profile for profile, _start in chosen]):
            return
        if unit == board.memory_units:
            out.append(frozenset((profile.id, start) for profile, start in chosen))
            return
        walk(unit + 1, free_from, chosen)
        if unit >= free_from:
            for profile, size in starting[unit]:
                walk(unit + 1, unit + size, chosen + [(profile, unit)])

    walk(0, 0, [])
    return out


def by_layout(found: t.Iterable[State]) -> t.Dict[Layout, t.List[State]]:
    """The placements of each layout."""
    out = defaultdict(list)
    for state in found:
        out[tuple(sorted(profile_id for profile_id, _start in state))].append(state)
    return dict(out)


def fewest_destroyed(current: State, placements: t.Iterable[State]) -> int:
    """The least number of current instances to destroy for any of these placements."""
    return min(len(current - placed) for placed in placements)
