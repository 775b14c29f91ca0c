# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every ordered pair of feasible layouts, compared with plain enumeration: the planner is never worse."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    Board,
    ComputeInstance,
    DesiredInstance,
    Gpu,
    GpuInstance,
    Placement,
    Profile,
    Target,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import Plan
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.brute_force import State, by_layout, states
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    carry_out,
    gi_id,
    gpu,
)

# Default placements of NVIDIA's driver on boards with 8 units: first choice first.
DRIVER_STARTS = {1: [6, 4, 5, 0, 1, 2, 3], 2: [4, 6, 0, 2], 4: [4, 0], 8: [0]}

# One board of each geometry: (board, layouts, their placements, every placement as the current state?)
BOARDS = [
    ("A30-24GB", 20, 76, True),
    ("H100-80GB", 128, 2319, False),
    ("RTX-PRO-6000-Blackwell-96GB", 115, 717, True),
]


class Found(t.NamedTuple):
    """A legal state in a form that compares quickly."""

    instances: int  # a bit for each profile and start
    placements: int  # a bit for each start and size
    room: t.Tuple[int, ...]  # how many more instances of each profile fit, largest first


class Space:
    """A board's layouts and all their placements."""

    def __init__(self, on: Board) -> None:
        self.board = on
        self.profiles = {profile.id: profile for profile in on.profiles}
        self.all = states(on)
        self._bits: t.Dict[t.Tuple[t.Any, int], int] = {}
        layouts = by_layout(self.all)
        self.placements = {layout: [self.found(state) for state in group] for layout, group in layouts.items()}
        self.targets = {
            layout: Target(True, tuple(DesiredInstance(self.profiles[profile_id]) for profile_id in layout))
            for layout in layouts
        }

    def found(self, state: State) -> Found:
        places = [self.place(*item)[1] for item in state]
        return Found(
            sum(self._bit(item) for item in state),
            sum(self._bit(("place", place.start * 100 + place.size)) for place in places),
            self._room(state),
        )

    def _bit(self, item: t.Tuple[t.Any, int]) -> int:
        return self._bits.setdefault(item, 1 << len(self._bits))

    def _room(self, state: State) -> t.Tuple[int, ...]:
        used = {unit for item in state for unit in range(self.place(*item)[1].start, self.place(*item)[1].end)}
        slices_left = self.board.compute_slices - sum(self.profiles[profile_id].slices for profile_id, _start in state)
        kinds = {
            (p.placements[0].size, p.slices, p.placements) for p in self.profiles.values() if p.slices <= slices_left
        }
        return tuple(
            sum(not used & set(range(place.start, place.end)) for place in places)
            for _size, _slices, places in sorted(kinds, reverse=True)
        )

    def place(self, profile_id: int, start: int) -> t.Tuple[Profile, Placement]:
        profile = self.profiles[profile_id]
        return profile, next(place for place in profile.placements if place.start == start)

    def gpu(self, state: State) -> Gpu:
        instances = []
        for profile_id, start in sorted(state):
            profile, place = self.place(profile_id, start)
            whole = ComputeInstance(0, 0, profile.slices, Placement(0, profile.slices))
            instances.append(GpuInstance(gi_id(place), profile.id, place, (whole,)))
        return gpu(self.board)._replace(instances=tuple(instances))


def gain(current: Found, after: Found) -> t.Tuple[int, int, t.Tuple[int, ...]]:
    """The value of a transition: kept instances, reused placements (and UUIDs) and free space."""
    return _ones(current.instances & after.instances), _ones(current.placements & after.placements), after.room


def _ones(bits: int) -> int:
    return bin(bits).count("1")


def state_after(result: Plan) -> State:
    kept = {(item.desired.profile.id, item.instance.placement.start) for item in result.kept}
    return frozenset(kept | {(new.desired.profile.id, new.placement.start) for new in result.created})


def current_states(space: Space, everything: bool) -> t.Iterator[State]:
    """Start states of transitions: all states, or for each layout the planner's and the driver's placement."""
    if everything:
        yield from space.all
        return
    for layout, target in space.targets.items():
        own = state_after(plan_gpu(space.gpu(frozenset()), target))
        driver = by_driver(space, layout)
        yield own
        if driver is not None and driver != own:
            yield driver


def by_driver(space: Space, layout: t.Sequence[int]) -> t.Optional[State]:
    """The state after creating without placements, large before small; None if the driver would get stuck."""
    used: t.Set[int] = set()
    out = set()
    for profile_id in sorted(layout, key=lambda found: (-space.profiles[found].slices, found)):
        profile = space.profiles[profile_id]
        for start in DRIVER_STARTS[profile.placements[0].size]:
            place = Placement(start, profile.placements[0].size)
            units = set(range(place.start, place.end))
            if place in profile.placements and not used & units:
                used |= units
                out.add((profile_id, start))
                break
        else:
            return None
    return frozenset(out)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layouts", "placements", "everything"), BOARDS, ids=[row[0] for row in BOARDS])
def test_no_placement_of_any_transition_is_better(model, layouts, placements, everything):
    space = Space(board(model))
    assert (len(space.targets), len(space.all)) == (layouts, placements)
    for state in current_states(space, everything):
        here, current = space.gpu(state), space.found(state)
        for layout, possible in space.placements.items():
            result = plan_gpu(here, space.targets[layout])
            after = state_after(result)
            best = max(gain(current, found) for found in possible)
            assert tuple(sorted(profile_id for profile_id, _start in after)) == layout
            assert (len(result.kept), len(result.destroyed)) == (best[0], len(state) - best[0])
            assert gain(current, space.found(after)) == best, "from %s to %s" % (sorted(state), layout)


@pytest.mark.slow
@pytest.mark.parametrize("model", [row[0] for row in BOARDS])
def test_every_layout_can_be_created_on_an_empty_gpu(model):
    space = Space(board(model))
    for layout, target in space.targets.items():
        after = carry_out(plan_gpu(space.gpu(frozenset()), target))
        assert tuple(sorted(gi.profile_id for gi in after.instances)) == layout
