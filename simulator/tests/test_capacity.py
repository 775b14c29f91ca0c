# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capacity of boards, checked against a second implementation of the rules that uses only the board files."""

from __future__ import annotations

import itertools
import random
import typing as t

import pynvml as nv
import pytest
from conftest import SIMULATED, code_of, create_at
from nvsim import description

Simulate = t.Callable[..., t.Any]


class Place(t.NamedTuple):
    """One way to create a GPU instance."""

    name: str
    profile_id: int
    slices: int
    most: int
    start: int
    size: int

    def units(self) -> t.Set[int]:
        return set(range(self.start, self.start + self.size))


State = t.FrozenSet[Place]


class Rules:
    def __init__(self, board: t.Dict[str, t.Any]) -> None:
        self.slices = board["compute_slices"]
        self.most = board["max_gpu_instances"]
        self.places = [
            Place(row["name"], row["id"], row["slices"], row["max_instances"], start, row["placements"]["size"])
            for row in board["profiles"]
            for start in row["placements"]["starts"]
        ]
        self.profile_ids = sorted({place.profile_id for place in self.places})

    def allows(self, state: State) -> bool:
        """Return whether a set of GPU instances can exist on one GPU."""
        names = [place.name for place in state]
        units = [unit for place in state for unit in place.units()]
        return (
            len(units) == len(set(units))
            and sum(place.slices for place in state) <= self.slices
            and len(state) <= self.most
            and all(names.count(place.name) <= place.most for place in state)
            and sum(name.endswith("+me") for name in names) <= 1
            and (
                not any(name.endswith("+me.all") for name in names)
                or sum(not name.endswith("-me") for name in names) == 1
            )
        )

    def capacity(self, state: State, profile_id: int) -> int:
        """Return the maximum number of additional instances of a profile, by exhaustive search."""
        fitting = [p for p in self.places if p.profile_id == profile_id and self.allows(state | {p}) and p not in state]
        return self.deepest(state, fitting)

    def deepest(self, state: State, fitting: t.List[Place]) -> int:
        best = 0
        for number, place in enumerate(fitting):
            if self.allows(state | {place}):
                best = max(best, 1 + self.deepest(state | {place}, fitting[number + 1 :]))
        return best


class Walk:
    """A simulated GPU, whose state is checked after each change."""

    def __init__(self, session: t.Any, rules: Rules) -> None:
        self.device = session.handle()
        self.rules = rules
        self.handles: t.Dict[Place, t.Any] = {}
        self.checked: t.Set[State] = set()

    def state(self) -> State:
        return frozenset(self.handles)

    def add(self, place: Place) -> int:
        def create() -> None:
            self.handles[place] = create_at(self.device, place.profile_id, place.start, place.size)

        return code_of(create)

    def remove(self, place: Place) -> None:
        nv.nvmlGpuInstanceDestroy(self.handles.pop(place))

    def check(self) -> None:
        """Check that every creation is accepted or rejected according to the rules, and that capacities are correct."""
        state = self.state()
        if state in self.checked:
            return
        self.checked.add(state)
        for place in self.rules.places:
            if place in state:
                continue
            code = self.add(place)
            if self.rules.allows(state | {place}):
                assert code == 0, (state, place)
                self.remove(place)
            else:
                assert code == nv.NVML_ERROR_INSUFFICIENT_RESOURCES, (state, place)
        for profile_id in self.rules.profile_ids:
            reported = nv.nvmlDeviceGetGpuInstanceRemainingCapacity(self.device, profile_id)
            assert reported == self.rules.capacity(state, profile_id), (state, profile_id)
        ids = [nv.nvmlGpuInstanceGetInfo(handle).id for handle in self.handles.values()]
        assert len(ids) == len(set(ids)), state

    def explore(self) -> None:
        """Visit every state, depth first."""
        self.check()
        for place in self.rules.places:
            state = self.state() | {place}
            if place not in self.handles and self.rules.allows(state) and state not in self.checked:
                assert self.add(place) == 0
                self.explore()
                self.remove(place)


def test_every_state(simulate: Simulate) -> None:
    rules = Rules(description.load_boards()["A30-24GB"])
    walk = Walk(simulate("A30-24GB"), rules)
    walk.explore()
    subsets = (frozenset(chosen) for count in range(5) for chosen in itertools.combinations(rules.places, count))
    assert walk.checked == {state for state in subsets if rules.allows(state)}


@pytest.mark.parametrize("board", SIMULATED)
def test_random_states(simulate: Simulate, board: str) -> None:
    rules = Rules(description.load_boards()[board])
    walk = Walk(simulate(board, driver="580.126.09"), rules)
    choose = random.Random(board)
    for _step in range(25):
        walk.check()
        fitting = [place for place in rules.places if place not in walk.handles]
        fitting = [place for place in fitting if rules.allows(walk.state() | {place})]
        if fitting and choose.random() < 0.7:
            assert walk.add(choose.choice(fitting)) == 0
        elif walk.handles:
            walk.remove(choose.choice(sorted(walk.handles)))


@pytest.mark.parametrize("board", SIMULATED)
def test_default_placement_finds_a_place_if_there_is_one(simulate: Simulate, board: str) -> None:
    """Creation without a placement uses an allowed placement, and fails only if none is left."""
    rules = Rules(description.load_boards()[board])
    session = simulate(board, driver="580.126.09")
    device = session.handle()
    choose = random.Random(board)
    handles: t.Dict[Place, t.Any] = {}
    for _step in range(120):
        profile_id = choose.choice(rules.profile_ids)
        state = frozenset(handles)
        fitting = {
            place: None
            for place in rules.places
            if place.profile_id == profile_id and place not in state and rules.allows(state | {place})
        }
        try:
            gi = nv.nvmlDeviceCreateGpuInstance(device, profile_id)
        except nv.NVMLError_InsufficientResources:
            assert not fitting, (state, profile_id)
            if handles:
                nv.nvmlGpuInstanceDestroy(handles.pop(choose.choice(sorted(handles))))
            continue
        placement = nv.nvmlGpuInstanceGetInfo(gi).placement
        [taken] = [place for place in fitting if (place.start, place.size) == (placement.start, placement.size)]
        handles[taken] = gi


def test_invalid_creations_are_rejected(simulate: Simulate) -> None:
    device = simulate("A100-80GB").handle()
    for profile_id, start, size in ((19, 7, 1), (9, 0, 3), (9, 1, 4), (14, 6, 2), (5, 4, 4), (0, 0, 7), (99, 0, 1)):
        assert code_of(create_at, device, profile_id, start, size) == nv.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(nv.nvmlDeviceCreateGpuInstance, device, 99) == nv.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(nv.nvmlDeviceGetGpuInstanceRemainingCapacity, device, 99) == nv.NVML_ERROR_NOT_SUPPORTED
