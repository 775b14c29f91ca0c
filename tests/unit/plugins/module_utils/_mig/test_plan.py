# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The planner on single cases: kept instances, messages and mode changes."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import (
    BusyError,
    DisturbError,
    InfeasibleError,
    LayoutError,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Placement, Process, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import Plan
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import mode_first_plan, plan_gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.solve import Search
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    carry_out,
    gpu,
    models,
    want,
)

A100 = board("A100-80GB")
RTX = board("RTX-PRO-6000-Blackwell-96GB")


def created(result: Plan) -> list:
    return [(new.desired.profile.name, str(new.placement)) for new in result.created]


def destroyed(result: Plan) -> list:
    return [str(gi.placement) for gi in result.destroyed]


# Kept instances


def test_nothing_to_do_is_an_empty_plan():
    result = plan_gpu(gpu(A100, "3g.40gb@4", "1g.10gb@0"), want(A100, "1g.10gb", "3g.40gb"))
    assert not result.changes
    assert [kept.instance.placement.start for kept in result.kept] == [0, 4]


def test_one_of_two_is_destroyed_and_the_rest_is_kept():
    result = plan_gpu(gpu(A100, "1g.10gb@0", "1g.10gb@1", "3g.40gb@4"), want(A100, "1g.10gb", "2g.20gb", "3g.40gb"))
    assert len(result.destroyed) == 1
    assert created(result) == [("2g.20gb", "2:2")]


def test_kept_instances_determine_new_placements():
    """On an empty GPU the 3g would start at 4; here it must start at 0 so that nothing moves."""
    result = plan_gpu(gpu(A100, "2g.20gb@4"), want(A100, "3g.40gb", "2g.20gb"))
    assert destroyed(result) == []
    assert created(result) == [("3g.40gb", "0:4")]


def test_as_few_instances_as_possible_are_destroyed():
    """A 4g needs units 0 to 3, which one 1g uses; the three others are kept."""
    result = plan_gpu(
        gpu(A100, "1g.10gb@2", "1g.10gb@4", "1g.10gb@5", "1g.10gb@6"),
        want(A100, "4g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"),
    )
    assert destroyed(result) == ["2:1"]
    assert created(result) == [("4g.40gb", "0:4")]


def test_a_requested_start_takes_precedence_over_keeping():
    result = plan_gpu(gpu(A100, "3g.40gb@0"), want(A100, "3g.40gb@4"))
    assert destroyed(result) == ["0:4"]
    assert created(result) == [("3g.40gb", "4:4")]


def test_of_equal_placements_a_previous_one_is_chosen():
    """The UUID depends on the placement: on an empty GPU the new one would start at 6, here it reuses 3."""
    result = plan_gpu(gpu(A100, "1g.10gb@3"), want(A100, "1g.10gb+me"))
    assert created(result) == [("1g.10gb+me", "3:1")]


def test_new_instances_leave_the_largest_profiles_possible():
    assert created(plan_gpu(gpu(A100), want(A100, "1g.10gb"))) == [("1g.10gb", "6:1")]
    assert created(plan_gpu(gpu(A100), want(A100, "2g.20gb"))) == [("2g.20gb", "4:2")]
    assert created(plan_gpu(gpu(A100), want(A100, "3g.40gb"))) == [("3g.40gb", "4:4")]
    assert created(plan_gpu(gpu(RTX), want(RTX, "1g.24gb"))) == [("1g.24gb", "0:3")]


def test_layouts_that_fail_with_nvidia_smi_fit_with_placements():
    """``-cgi 19,19,14,9`` fails on hardware because of the driver's placements; with explicit ones it does not."""
    result = plan_gpu(gpu(A100), want(A100, "1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"))
    assert len(carry_out(result).instances) == 4


# Compute instances


def test_gpu_instance_without_compute_instance_is_repaired():
    result = plan_gpu(gpu(A100, "3g.40gb@4="), want(A100, "3g.40gb"))
    assert destroyed(result) == [] and result.kept[0].create == (3,)
    assert [op.kind for op in result.operations] == ["create_compute_instance"]


def test_undesired_orphan_is_destroyed():
    assert destroyed(plan_gpu(gpu(A100, "3g.40gb@4="), want(A100))) == ["4:4"]


def test_surplus_compute_instance_is_destroyed_and_missing_one_is_created():
    result = plan_gpu(gpu(A100, "3g.40gb@4=1@0+1@1+1@2"), want(A100, "3g.40gb=2+1"))
    (kept,) = result.kept
    assert kept.keep == (2,), "the one at 2 is the only one beside which a 2c fits"
    assert kept.destroy == (0, 1) and kept.create == (2,)


def test_blocking_compute_instance_is_destroyed_too():
    result = plan_gpu(gpu(A100, "3g.40gb@4=1@1"), want(A100, "3g.40gb=2+1"))
    (kept,) = result.kept
    assert kept.keep == () and kept.destroy == (0,) and kept.create == (2, 1)


def test_busy_blocking_compute_instance_is_refused():
    with pytest.raises(BusyError) as caught:
        plan_gpu(gpu(A100, "3g.40gb@4=1@1", busy=[(4, 0)]), want(A100, "3g.40gb=2+1"))
    assert "compute instance 0 (1c) of GPU instance 68 (3g.40gb at 4:4), used by PID 1000 (train)" in str(caught.value)


def test_busy_compute_instance_is_kept_while_idle_ones_change():
    result = plan_gpu(gpu(A100, "3g.40gb@4=1@0+1@1+1@2", busy=[(4, 2)]), want(A100, "3g.40gb=2+1"))
    assert result.kept[0].keep == (2,)


def test_of_equal_compute_instances_the_busy_one_is_kept():
    result = plan_gpu(gpu(A100, "7g.80gb@0=1@0+1@1+1@2+1@3", busy=[(0, 3)]), want(A100, "7g.80gb=1+1"))
    assert 3 in result.kept[0].keep and len(result.kept[0].keep) == 2


def test_busy_compute_instance_is_kept_instead_of_several_idle_ones():
    """A 2c fits beside the busy one at 0, or beside both idle ones, but not beside all three."""
    result = plan_gpu(gpu(A100, "4g.40gb@0=1@0+1@2+1@3", busy=[(0, 0)]), want(A100, "4g.40gb=2+1+1"))
    assert result.kept[0].keep == (0,)
    assert plan_gpu(gpu(A100, "4g.40gb@0=1@0+1@2+1@3"), want(A100, "4g.40gb=2+1+1")).kept[0].keep == (1, 2)


def test_busy_compute_instance_determines_the_assignment():
    """Two compute instances could be kept without the busy one; only the busy one is kept."""
    specs = ("3g.40gb@0=2@0+1@2", "3g.40gb@4=2@0")
    target = want(A100, "3g.40gb=2", "3g.40gb=1+1+1")
    assert [kept.keep for kept in plan_gpu(gpu(A100, *specs), target).kept] == [(1,), (0,)]
    assert [kept.keep for kept in plan_gpu(gpu(A100, *specs, busy=[(0, 0)]), target).kept] == [(0,), ()]


def test_unknown_compute_instance_counts_as_all_busy():
    with pytest.raises(BusyError):
        plan_gpu(gpu(A100, "3g.40gb@4=1@0+1@1", busy=[(4, None)]), want(A100, "3g.40gb=1"))


def test_compute_instance_of_unknown_placement_is_kept_only_if_nothing_is_added():
    same = plan_gpu(gpu(A100, "3g.40gb@4=2+1"), want(A100, "3g.40gb=2+1"))
    assert not same.changes
    fewer = plan_gpu(gpu(A100, "3g.40gb@4=2+1"), want(A100, "3g.40gb=1"))
    assert fewer.kept[0].keep == (1,)
    more = plan_gpu(gpu(A100, "3g.40gb@4=1"), want(A100, "3g.40gb=1+1"))
    assert more.kept[0].keep == () and more.kept[0].create == (1, 1)


def test_instance_with_the_better_compute_instances_is_matched():
    """Both 3g are kept with either assignment; only one keeps every compute instance."""
    result = plan_gpu(gpu(A100, "3g.40gb@0=2@0+1@2", "3g.40gb@4"), want(A100, "3g.40gb", "3g.40gb=2+1"))
    assert not result.changes


def test_reused_compute_ids_restore_their_uuids():
    """Beside 5, the new one reuses the free ID 0; beside 0 it would get the unused ID 1."""
    state = gpu(A100, "4g.40gb@0=1@0+1@1")
    (gi,) = state.instances
    first, second = gi.compute_instances
    gi = gi._replace(compute_instances=(first, second._replace(id=5)))
    result = plan_gpu(state._replace(instances=(gi,)), want(A100, "4g.40gb=2+1"))
    assert result.kept[0].keep == (5,)


# Refusals


def test_busy_undesired_instance_is_refused_with_every_process():
    state = gpu(A100, "3g.40gb@4", "1g.10gb@0", busy=[(4, 0), (4, 0), (0, 0)])
    with pytest.raises(BusyError) as caught:
        plan_gpu(state, want(A100, "7g.80gb"))
    text = str(caught.value)
    assert text.startswith("GPU 0 (GPU-0, 00000000:01:00.0, NVIDIA A100-80GB): ")
    assert "GPU instance 1 (1g.10gb at 0:1), used by PID 1002 (train)" in text
    assert "GPU instance 68 (3g.40gb at 4:4), used by PID 1000 (train), PID 1001 (train)" in text
    assert "Stop these processes" in text


def test_a_process_listed_twice_is_named_once():
    state = gpu(A100, "3g.40gb@4", busy=[(4, 0)])
    state = state._replace(processes=state.processes * 2)
    with pytest.raises(BusyError) as caught:
        plan_gpu(state, want(A100))
    assert str(caught.value).count("PID 1000") == 1


def test_busy_instance_is_kept_even_if_that_destroys_more():
    specs = ("1g.10gb@0", "1g.10gb@4", "1g.10gb@5")
    target = want(A100, "1g.10gb", "1g.10gb", "3g.40gb")
    assert destroyed(plan_gpu(gpu(A100, *specs), target)) == ["0:1"]
    assert destroyed(plan_gpu(gpu(A100, *specs, busy=[(0, 0)]), target)) == ["4:1", "5:1"]


def test_busy_instance_is_kept_even_if_its_compute_instances_are_unknown():
    target = want(A100, "3g.40gb", "2g.20gb")
    result = plan_gpu(gpu(A100, "2g.20gb@0=", "2g.20gb@4", busy=[(0, None)]), target)
    assert destroyed(result) == ["4:2"]
    result = plan_gpu(gpu(A100, "2g.20gb@0", "2g.20gb@4=", busy=[(4, None)]), target)
    assert destroyed(result) == ["0:2"]


def test_busy_instance_blocks_a_layout_that_would_fit_without_it():
    state = gpu(A100, "1g.10gb@0", busy=[(0, 0)])
    with pytest.raises(BusyError):
        plan_gpu(state, want(A100, "4g.40gb", "1g.10gb"))
    assert created(plan_gpu(gpu(A100, "1g.10gb@0"), want(A100, "4g.40gb", "1g.10gb")))


def test_processes_on_the_gpu_do_not_pin_instances():
    state = gpu(A100, "1g.10gb@0")._replace(processes=(Process(7, "Xorg"),))
    assert destroyed(plan_gpu(state, want(A100))) == ["0:1"]


def test_disturb_false_refuses_idle_instances_by_name():
    with pytest.raises(DisturbError) as caught:
        plan_gpu(gpu(A100, "3g.40gb@4", "1g.10gb@0"), want(A100, "1g.10gb"), disturb=False)
    assert "GPU instance 68 (3g.40gb at 4:4)" in str(caught.value)
    assert "1g.10gb" not in str(caught.value), "what stays is not named"


def test_disturb_false_refuses_compute_instances_too():
    with pytest.raises(DisturbError) as caught:
        plan_gpu(gpu(A100, "3g.40gb@4=1@0+1@1"), want(A100, "3g.40gb=1"), disturb=False)
    assert "compute instance 1 (1c) of GPU instance 68" in str(caught.value)


def test_disturb_false_allows_additions():
    result = plan_gpu(gpu(A100, "3g.40gb@4="), want(A100, "3g.40gb", "1g.10gb"), disturb=False)
    assert len(result.created) == 1 and result.kept[0].create == (3,)


INFEASIBLE = [
    (
        A100,
        ["4g.40gb"] + ["1g.10gb"] * 4,
        "4g.40gb: 1, 1g.10gb: 4 does not fit: 8 compute slices are needed and the GPU has 7; "
        "nearest that fits: 4g.40gb: 1, 1g.10gb: 3",
    ),
    (
        A100,
        ["3g.40gb", "3g.40gb", "1g.10gb"],
        "they overlap wherever they are placed (3g.40gb: {0,4}:4, 1g.10gb: {0,1,2,3,4,5,6}:1); "
        "nearest that fits: 3g.40gb: 2",
    ),
    (A100, ["1g.10gb+me"] * 2, "the GPU holds at most 1 of 1g.10gb+me, not 2; nearest that fits: 1g.10gb+me: 1"),
    (A100, ["3g.40gb@2"], "3g.40gb cannot start at 2 (3g.40gb: {0,4}:4); it fits without the starts"),
    (A100, ["3g.40gb@4", "3g.40gb@4"], "overlap wherever they are placed (3g.40gb: {0,4}:4); it fits without the"),
    (A100, ["3g.40gb=2+2"], "compute instances 2c+2c do not fit into one 3g.40gb, which has 3 compute slices; it fits"),
    (A100, ["7g.80gb=3+3+1"], None),
    (A100, ["7g.80gb=3+2+2"], None),
    (A100, ["7g.80gb=4+4"], "it fits with whole compute instances"),
    (A100, ["3g.40gb@2=2+2"], "it fits without the starts and with whole compute instances"),
    (RTX, ["1g.24gb+me.all", "1g.24gb"], "1g.24gb+me.all takes all media engines"),
    (RTX, ["1g.24gb+me.all", "1g.24gb+gfx"], "nearest that fits: 1g.24gb"),
    (RTX, ["1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"], None),
    (RTX, ["4g.96gb", "4g.96gb+gfx"], "8 compute slices are needed and the GPU has 4"),
    (board("A30-24GB"), ["1g.6gb+me", "2g.12gb+me"], "1g.6gb+me"),
    (A100, ["1g.10gb"] * 10000, "nearest that fits: 1g.10gb: 7"),
]


@pytest.mark.parametrize(("on", "specs", "text"), INFEASIBLE)
def test_an_infeasible_layout_is_refused_with_reason_and_nearest_fit(on, specs, text):
    if text is None:
        carry_out(plan_gpu(gpu(on), want(on, *specs)))
        return
    for some_order in (specs, specs[::-1]):
        with pytest.raises(InfeasibleError) as caught:
            plan_gpu(gpu(on), want(on, *some_order))
        assert text in str(caught.value)


def test_infeasible_takes_precedence_over_busy():
    with pytest.raises(InfeasibleError):
        plan_gpu(gpu(A100, "7g.80gb@0", busy=[(0, 0)]), want(A100, "7g.80gb", "1g.10gb"))


# Mode

MODES = [
    # current, pending, desired -> mode to set, and whether a reset is needed too
    (False, False, True, True, False),
    (False, True, True, None, True),
    (True, True, True, None, False),
    (True, False, True, True, False),
    (True, True, False, False, False),
    (True, False, False, None, True),
    (False, False, False, None, False),
    (False, True, False, False, False),
    (False, None, True, True, False),
    (True, None, True, None, False),
]


@pytest.mark.parametrize(("current", "pending", "enabled", "set_mode", "needs_reset"), MODES)
def test_mode_is_set_only_if_it_is_not_pending_already(current, pending, enabled, set_mode, needs_reset):
    of = gpu(A100, mode_current=current, mode_pending=pending)
    allowed, not_allowed = plan_gpu(of, Target(enabled), reset=True), plan_gpu(of, Target(enabled))
    assert (allowed.set_mode, allowed.reset, allowed.blocked) == (set_mode, needs_reset, None)
    assert (not_allowed.set_mode, not_allowed.reset, bool(not_allowed.blocked)) == (set_mode, False, needs_reset)
    if enabled:
        first = mode_first_plan(of, reset=True)
        assert (first.set_mode, first.reset, first.mode_first) == (set_mode, needs_reset, True)
        assert first.target == Target(True)


def test_mode_off_destroys_everything_first():
    result = plan_gpu(gpu(A100, "3g.40gb@4", "1g.10gb@0"), Target(False), reset=True)
    assert [op.kind for op in result.operations] == [
        "destroy_compute_instance",
        "destroy_gpu_instance",
        "destroy_compute_instance",
        "destroy_gpu_instance",
        "set_mode",
    ]
    assert carry_out(result).mode_current is False


def test_mode_off_with_a_busy_instance_is_refused():
    with pytest.raises(BusyError):
        plan_gpu(gpu(A100, "3g.40gb@4", busy=[(4, 0)]), Target(False))


def test_mode_is_enabled_before_the_first_creation():
    result = plan_gpu(gpu(A100, mode_current=False, mode_pending=False), want(A100, "3g.40gb"))
    assert [op.kind for op in result.operations] == ["set_mode", "create_gpu_instance", "create_compute_instance"]
    assert result.operations[1].placement == Placement(4, 4)


def test_gpu_without_mig():
    state = gpu(A100, mig_capable=False, mode_current=None, mode_pending=None)
    assert not plan_gpu(state, Target(False)).changes
    for refused in (lambda: plan_gpu(state, want(A100, "1g.10gb")), lambda: mode_first_plan(state)):
        with pytest.raises(LayoutError, match="GPU 0 .* does not support MIG"):
            refused()


# Size of the search


@pytest.mark.parametrize("model", models())
def test_the_search_stays_small_on_every_board(model):
    """Many different one-slice instances are the worst case; a state takes a few microseconds."""
    on = board(model)
    small = [p for p in on.profiles if p.slices == 1]
    worst = [small[number % len(small)].name for number in range(on.compute_slices)]
    search = Search(on, want(on, *worst).instances, lambda desired, place: 0)
    search.solve()
    assert 0 < len(search._ranks) <= 2**on.compute_slices * (on.compute_slices + 1)
