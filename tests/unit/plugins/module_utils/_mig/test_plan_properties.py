# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Properties of every plan: it reaches the layout in a legal order and disturbs nothing needlessly."""

from __future__ import annotations

import itertools
import random
import typing as t
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import Outcome
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import BusyError, DisturbError, InfeasibleError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    WHOLE,
    Board,
    ComputeInstance,
    DesiredInstance,
    Gpu,
    GpuInstance,
    Placement,
    Process,
    Target,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import Plan
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan_node import unchanged
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import results
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.brute_force import (
    State,
    by_layout,
    fewest_destroyed,
    states,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    carry_out,
    ci_starts,
    gi_id,
    gpu,
    holds,
)

pytestmark = pytest.mark.slow  # hundreds of examples each; the other tests of plans run on every Python

MODELS = ["A30-24GB", "A100-40GB", "H100-80GB", "RTX-PRO-6000-Blackwell-96GB"]
STATES = {model: states(board(model)) for model in MODELS}
LAYOUTS = {model: by_layout(found) for model, found in STATES.items()}
# Splits of a GPU instance by slices: all of a small one, some of a large one.
SPLITS = {
    1: [WHOLE],
    2: [WHOLE, (1, 1), (1,)],
    3: [WHOLE, (2, 1), (1, 1, 1), (1, 1), (2,), (1,)],
    4: [WHOLE, (2, 2), (2, 1, 1), (1, 1, 1, 1), (1, 1)],
    7: [WHOLE, (4, 3), (4, 2, 1), (3, 2, 2), (3, 3), (2, 2, 2, 1), (2, 1, 1), (1,) * 7],
}


def placed(on: Board, state: State) -> t.List[t.Tuple[t.Any, Placement]]:
    profiles = {profile.id: profile for profile in on.profiles}
    out = []
    for profile_id, start in sorted(state):
        profile = profiles[profile_id]
        out.append((profile, next(place for place in profile.placements if place.start == start)))
    return out


@st.composite
def gpus(draw: t.Any, busy: bool = True) -> Gpu:
    """A GPU in any legal state, with split, idle and orphaned instances, and processes in some."""
    model = draw(st.sampled_from(MODELS))
    on = board(model)
    instances, processes = [], []
    for profile, place in placed(on, draw(st.sampled_from(STATES[model]))):
        cis = draw(compute_instances(profile.slices))
        instances.append(GpuInstance(gi_id(place), profile.id, place, cis))
        if busy and cis and draw(st.integers(0, 3)) == 0:
            user = draw(st.sampled_from([None] + [ci.id for ci in cis]))
            processes.append(Process(100 + len(processes), "train", gi_id(place), user))
    return gpu(on)._replace(instances=tuple(draw(st.permutations(instances))), processes=tuple(processes))


@st.composite
def compute_instances(draw: t.Any, slices: int) -> t.Tuple[ComputeInstance, ...]:
    """Any part of any packing, as left by creations and destructions."""
    shapes = {
        1: [[(0, 1)]],
        2: [[(0, 2)], [(0, 1), (1, 1)]],
        3: [[(0, 3)], [(0, 2), (2, 1)], [(0, 1), (1, 1), (2, 1)]],
        4: [[(0, 4)], [(0, 2), (2, 2)], [(0, 1), (1, 1), (2, 2)], [(0, 1), (1, 1), (2, 1), (3, 1)]],
        7: [[(0, 7)], [(0, 4), (4, 3)], [(0, 2), (2, 2), (4, 2), (6, 1)], [(0, 3), (4, 3)], [(n, 1) for n in range(7)]],
    }[slices]
    shape = draw(st.sampled_from(shapes))
    chosen = [part for part in shape if draw(st.integers(0, 4))]
    ids = draw(st.permutations(range(len(shape))))
    found = [ComputeInstance(ids[n], 0, size, Placement(start, size)) for n, (start, size) in enumerate(chosen)]
    return tuple(sorted(found, key=lambda ci: ci.id))


@st.composite
def targets(draw: t.Any, on: Board) -> Target:
    """Any layout that fits on an empty GPU, with splits and, rarely, starts."""
    model = on.model
    layout = draw(st.sampled_from(sorted(LAYOUTS[model])))
    desired = []
    for profile, place in placed(on, draw(st.sampled_from(LAYOUTS[model][layout]))):
        start = place.start if draw(st.integers(0, 7)) == 0 else None
        desired.append(DesiredInstance(profile, start, draw(st.sampled_from(SPLITS[profile.slices]))))
    return Target(True, tuple(draw(st.permutations(desired))))


@st.composite
def cases(draw: t.Any, busy: bool = True) -> t.Tuple[Gpu, Target]:
    state = draw(gpus(busy))
    return state, draw(targets(state.board))


@st.composite
def matching(draw: t.Any) -> t.Tuple[Gpu, Target]:
    """A GPU and the layout that it holds, some of it pinned, or a part of that layout."""
    state = draw(gpus())
    profiles = {profile.id: profile for profile in state.board.profiles}
    desired = []
    for gi in state.instances:
        slices = tuple(sorted((ci.slices for ci in gi.compute_instances), reverse=True))
        start = gi.placement.start if draw(st.booleans()) else None
        whole = slices == (profiles[gi.profile_id].slices,)
        desired.append(DesiredInstance(profiles[gi.profile_id], start, WHOLE if whole else slices))
    kept = draw(st.integers(max(0, len(desired) - 1), len(desired)))
    return state, Target(True, tuple(draw(st.permutations(desired[:kept]))))


def same(left: Plan, right: Plan) -> bool:
    """A form that does not depend on the order of the input."""
    return left._replace(gpu=right.gpu, target=right.target) == right


def expected(target: Target) -> t.List[t.Tuple[str, t.Tuple[int, ...]]]:
    return sorted((desired.profile.name, desired.slices) for desired in target.instances)


@given(cases())
@settings(max_examples=600, deadline=None)
def test_a_plan_reaches_its_target_and_keeps_the_listed_instances(case: t.Tuple[Gpu, Target]) -> None:
    state, target = case
    try:
        result = plan_gpu(state, target)
    except BusyError:
        assume(False)
        return
    after = carry_out(result)  # refuses overlaps, missing objects, instances in use and exceeded limits

    found = holds(after)
    assert sorted((name, slices) for name, _start, slices in found) == expected(target)
    pinned = [(desired.profile.name, desired.start) for desired in target.instances if desired.start is not None]
    assert all((name, start) in [(n, s) for n, s, _slices in found] for name, start in pinned)

    kept = {item.instance.id: item for item in result.kept}
    gone = {gi.id for gi in result.destroyed}
    assert kept.keys() | gone == {gi.id for gi in state.instances} and not kept.keys() & gone
    untouched = {op.gi_id for op in result.operations}
    for gi in state.instances:
        survivor = next((new for new in after.instances if new.id == gi.id), None)
        if gi.id in kept and gi.id not in untouched:
            assert survivor == gi
        if gi.id in kept:
            still_there = set(survivor.compute_instances) if survivor else set()
            assert {ci for ci in gi.compute_instances if ci.id in kept[gi.id].keep} <= still_there

    for process in state.processes:
        assert process.gi_id in kept
        stays = kept[process.gi_id].keep
        user = next(gi for gi in state.instances if gi.id == process.gi_id)
        assert {ci.id for ci in user.compute_instances if process.ci_id in (None, ci.id)} <= set(stays)

    assert not plan_gpu(after, target).changes, "a second run changes nothing"
    assert not plan_gpu(after, target, disturb=False).changes


@given(cases(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_order_of_entries_and_of_instances_does_not_matter(case: t.Tuple[Gpu, Target], rng: random.Random) -> None:
    state, target = case
    instances, desired = list(state.instances), list(target.instances)
    rng.shuffle(instances)
    rng.shuffle(desired)
    outcomes = []
    for some_gpu, some_target in (
        (state, target),
        (state._replace(instances=tuple(instances)), Target(True, tuple(desired))),
    ):
        try:
            outcomes.append(plan_gpu(some_gpu, some_target))
        except BusyError as error:
            outcomes.append(str(error))
    first, second = outcomes
    assert first == second if isinstance(first, str) or isinstance(second, str) else same(first, second)


@given(cases())
@settings(max_examples=300, deadline=None)
def test_busy_is_refused_only_if_no_placement_keeps_it(case: t.Tuple[Gpu, Target]) -> None:
    """Checked for GPU instances with whole compute instances, because keeping them depends only on placements."""
    state, target = case
    target = Target(True, tuple(desired._replace(compute_instances=WHOLE) for desired in target.instances))
    whole = [
        gi._replace(compute_instances=(ComputeInstance(0, 0, state.profile(gi.profile_id).slices, None),))
        for gi in state.instances
    ]
    users = tuple(process._replace(ci_id=0) for process in state.processes)
    state = state._replace(instances=tuple(whole), processes=users)
    busy = {(gi.profile_id, gi.placement.start) for gi in whole if any(user.gi_id == gi.id for user in users)}
    possible = [found for found in choices(target, state.board) if busy <= found]
    try:
        result = plan_gpu(state, target)
    except BusyError as error:
        assert not possible
        assert all("PID %d" % user.pid in str(error) for user in users if user.gi_id in lost(state, target))
        return
    current = frozenset((gi.profile_id, gi.placement.start) for gi in whole)
    assert len(result.destroyed) == fewest_destroyed(current, possible)


def lost(state: Gpu, target: Target) -> t.Set[t.Optional[int]]:
    """GPU instances of undesired profiles, which must be destroyed."""
    names = {desired.profile.id for desired in target.instances}
    return {gi.id for gi in state.instances if gi.profile_id not in names}


def choices(target: Target, on: Board) -> t.List[State]:
    """All placements of a target that match its pinned starts."""
    layout = tuple(sorted(desired.profile.id for desired in target.instances))
    pinned = {(desired.profile.id, desired.start) for desired in target.instances if desired.start is not None}
    return [found for found in LAYOUTS[on.model][layout] if pinned <= found]


@given(cases(busy=False))
@settings(max_examples=300, deadline=None)
def test_no_assignment_keeps_more(case: t.Tuple[Gpu, Target]) -> None:
    """Compared with all placements, all assignments of equal profiles, and all sets of kept compute instances."""
    state, target = case
    result = plan_gpu(state, target)
    best = max(
        keeps(state, found, splits) for found in choices(target, state.board) for splits in assignments(target, found)
    )
    assert (len(result.kept), sum(len(item.keep) for item in result.kept)) == best


def assignments(target: Target, found: State) -> t.Iterator[t.Dict[t.Tuple[int, int], t.Tuple[int, ...]]]:
    """Which instance of a state gets which compute instances: (profile id, start) -> slices."""
    by_profile: t.Dict[int, t.List[DesiredInstance]] = {}
    for desired in target.instances:
        by_profile.setdefault(desired.profile.id, []).append(desired)
    ways = []
    for profile_id, group in sorted(by_profile.items()):
        starts = sorted(start for other, start in found if other == profile_id)
        ways.append(
            {
                tuple(zip([(profile_id, start) for start in starts], [slices for _pin, slices in perm]))
                for perm in set(itertools.permutations([(desired.start, desired.slices) for desired in group]))
                if all(pin in (None, start) for start, (pin, _slices) in zip(starts, perm))
            }
        )
    for combination in itertools.product(*ways):
        yield {place: slices for part in combination for place, slices in part}


def keeps(state: Gpu, found: State, splits: t.Dict[t.Tuple[int, int], t.Tuple[int, ...]]) -> t.Tuple[int, int]:
    """GPU instances and compute instances that stay in one assignment."""
    kept = [gi for gi in state.instances if (gi.profile_id, gi.placement.start) in found]
    return len(kept), sum(keeps_inside(state, gi, splits[gi.profile_id, gi.placement.start]) for gi in kept)


def keeps_inside(state: Gpu, gi: GpuInstance, slices: t.Tuple[int, ...]) -> int:
    for count in range(len(gi.compute_instances), 0, -1):
        for kept in itertools.combinations(gi.compute_instances, count):
            rest = Counter(slices)
            rest.subtract(ci.slices for ci in kept)
            missing = sorted(rest.elements(), reverse=True)
            if min(rest.values()) >= 0 and ci_starts(state.profile(gi.profile_id), kept, missing) is not None:
                return count
    return 0


@given(cases(busy=False))
@settings(max_examples=300, deadline=None)
def test_disturb_false_refuses_exactly_the_destructive_plans(case: t.Tuple[Gpu, Target]) -> None:
    state, target = case
    result = plan_gpu(state, target)
    harm = bool(result.destroyed) or any(item.destroy for item in result.kept)
    try:
        gentle = plan_gpu(state, target, disturb=False)
    except DisturbError:
        assert harm
    else:
        assert not harm and gentle == result


@given(st.sampled_from(MODELS), st.data())
@settings(max_examples=300, deadline=None)
def test_an_infeasible_layout_is_refused_and_the_nearest_fits(model: str, data: t.Any) -> None:
    on = board(model)
    profiles = data.draw(st.lists(st.sampled_from(on.profiles), max_size=9))
    request = Counter(profile.id for profile in profiles)
    target = Target(True, tuple(DesiredInstance(profile) for profile in profiles))
    if tuple(sorted(request.elements())) in LAYOUTS[model]:
        plan_gpu(gpu(on), target)
        return
    with pytest.raises(InfeasibleError) as caught:
        plan_gpu(gpu(on), target)
    _reason, _found, nearest = str(caught.value).partition("nearest that fits: ")
    part, _found, more = nearest.partition(", with room for ")
    offered = ids(on, part)
    assert not offered - request, "a part of the request"
    assert tuple(sorted((offered + ids(on, more)).elements())) in LAYOUTS[model], "it fits"
    inside = [layout for layout in LAYOUTS[model] if not Counter(layout) - request]
    assert sum(offered.values()) == max(map(len, inside)), "no larger part fits"


def ids(on: Board, text: str) -> t.Counter[int]:
    """Profile ids of ``3g.40gb: 1, 1g.10gb: 3``."""
    known = {profile.name: profile.id for profile in on.profiles}
    pairs = [item.split(": ") for item in text.split(", ") if item]
    return Counter({known[name]: int(count) for name, count in pairs})


@given(st.one_of(matching(), cases()), st.sampled_from([(True, True), (True, False), (False, False)]))
@settings(max_examples=600, deadline=None)
def test_a_gpu_that_needs_no_search_is_recognised(case: t.Tuple[Gpu, Target], mode: t.Tuple[bool, bool]) -> None:
    """The check agrees with the plan of the full search and with the result of converging."""
    state, target = case
    state = state._replace(mode_current=mode[0], mode_pending=mode[1])
    found = unchanged(state, target)
    try:
        planned: t.Optional[Plan] = plan_gpu(state, target)
    except BusyError:
        planned = None
    if planned is None or planned.changes or planned.blocked:
        assert found is None
        return
    assert found == planned
    outcome = Outcome(state, state, found)
    assert results.merged_result([results.planned_result(found)], "nvml") == results.merged_result(
        [results.applied_result(outcome)], "nvml"
    )
