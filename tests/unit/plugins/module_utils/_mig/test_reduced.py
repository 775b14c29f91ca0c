# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two kinds of compute instance of a 1g profile with double memory: 1g.20gb and 1c.1g.20gb on an H100."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.boards import mark_reduced
from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout, messages, mig_parted, render
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import CiProfile
from ansible_collections.gpufleet.node.plugins.module_utils._mig.board import offers_reduced
from ansible_collections.gpufleet.node.plugins.module_utils._mig.ci_choice import choose
from ansible_collections.gpufleet.node.plugins.module_utils._mig.codes import NO_PERMISSION
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import BusyError, DisturbError, LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.explain import describe
from ansible_collections.gpufleet.node.plugins.module_utils._mig.mig_parted import InstanceSpec
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import WHOLE, DesiredInstance, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.verify import mismatch
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend import fake
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    board_file,
    carry_out,
    gpu,
    models,
    want,
)

A100, H100 = board("A100-80GB"), board("H100-80GB")
# The compute profiles of a 1g.20gb and a 2g.20gb of an H100.
ONE = (CiProfile(0, 1, 16, 1, ((0, 1),)), CiProfile(7, 1, 26, 1, ((0, 1),)))
TWO = (CiProfile(0, 1, 16, 2, ((0, 1), (1, 1))), CiProfile(7, 1, 26, 1, ((0, 1),)), CiProfile(1, 2, 32, 1, ((0, 2),)))


# Kinds


def test_the_smaller_whole_compute_instance_is_the_reduced_one() -> None:
    assert [offered.reduced for offered in mark_reduced(ONE)] == [True, False]
    assert [offered.reduced for offered in mark_reduced(TWO)] == [False] * 3, "parts are not reduced"
    twins = (CiProfile(4, 7, 132, 1, ()), CiProfile(8, 7, 132, 1, ()))
    assert not any(offered.reduced for offered in mark_reduced(twins))
    assert mark_reduced(()) == ()


@pytest.mark.parametrize("model", models())
def test_only_double_memory_on_hopper_and_blackwell_has_two_kinds(model: str) -> None:
    on = board(model)
    later = board_file(model)["architecture"] in ("hopper", "blackwell")
    double = [known.name for known in on.profiles if known.constant == 9 and later]  # NVML's 1_SLICE_REV2
    assert [known.name for known in on.profiles if offers_reduced(on, known)] == double


def test_the_kind_follows_the_layout() -> None:
    offered = mark_reduced(ONE)
    assert [choice.profile.id for choice in choose(offered, (1,), ())] == [7]
    assert [choice.profile.id for choice in choose(offered, (1,), (), reduced=True)] == [0]
    with pytest.raises(LookupError):
        choose(mark_reduced(ONE[1:]), (1,), (), reduced=True)


# Layouts


def meant(mig_devices: t.Any, on: t.Any = H100) -> t.List[t.Tuple[str, t.Optional[int], bool]]:
    (request,) = (
        layout.parse([{"devices": 0, "mig_enabled": True, "mig_devices": mig_devices}]).resolve([gpu(on)]).values()
    )
    assert all(item.compute_instances == WHOLE for item in request.target(on).instances)
    return [(item.profile.name, item.start, item.reduced) for item in request.target(on).instances]


@pytest.mark.parametrize(
    "mig_devices, expected",
    [
        ({"1g.20gb": 1}, [("1g.20gb", None, False)]),
        ({"1c.1g.20gb": 1}, [("1g.20gb", None, True)]),
        ({"MIG 1c.1g.21gb": 1}, [("1g.20gb", None, True)]),
        ({"1c.1g.20gb": 2, "1g.20gb": 1}, [("1g.20gb", None, False)] + [("1g.20gb", None, True)] * 2),
        ([{"profile": "1g.20gb", "start": 2, "compute_instances": ["1c.1g.20gb"]}], [("1g.20gb", 2, True)]),
        ([{"profile": "1g.20gb", "compute_instances": ["1g.20gb"]}], [("1g.20gb", None, False)]),
        ([{"profile": "1c.1g.20gb", "count": 2}], [("1g.20gb", None, True)] * 2),
        ({"1c.1g.10gb": 1}, [("1g.10gb", None, False)]),
        ([{"profile": "1c.1g.10gb"}], [("1g.10gb", None, False)]),
        ({"7c.7g.80gb": 1}, [("7g.80gb", None, False)]),
    ],
)
def test_a_layout_names_either_kind(mig_devices: t.Any, expected: t.Any) -> None:
    assert meant(mig_devices) == expected


def test_both_names_select_the_only_kind() -> None:
    assert meant({"1c.1g.20gb": 1}, A100) == meant({"1g.20gb": 1}, A100) == [("1g.20gb", None, False)]
    with pytest.raises(LayoutError, match="both mean 1g.20gb on A100-80GB: write it once"):
        meant({"1c.1g.20gb": 1, "1g.20gb": 1}, A100)


def test_a_compute_instance_cannot_hold_others() -> None:
    with pytest.raises(LayoutError, match=r"write profile: 1g.20gb and compute_instances: \[1c.1g.20gb\]"):
        meant([{"profile": "1c.1g.20gb", "compute_instances": ["1g.20gb"]}])


# Kept instances


def kinds(on: t.Any) -> t.List[bool]:
    return [ci.reduced for gi in sorted(on.instances, key=lambda gi: gi.placement) for ci in gi.compute_instances]


@pytest.mark.parametrize("has, wants", [("1c.1g.20gb@2", "1g.20gb"), ("1g.20gb@2", "1c.1g.20gb")])
def test_the_other_kind_is_recreated_in_its_gpu_instance(has: str, wants: str) -> None:
    result = plan_gpu(gpu(H100, has), want(H100, wants))
    assert [messages.operation(operation) for operation in result.operations] == [
        "destroy compute instance %s in 1g.20gb at 2:2" % has[:-2],
        "create compute instance %s in 1g.20gb at 2:2" % wants,
    ]
    after = carry_out(result)
    assert kinds(after) == [wants.startswith("1c.")]
    assert mismatch(result, after) is None
    kind = {"1g.20gb": "1c", "1c.1g.20gb": "1c.1g.20gb"}
    expected = "1g.20gb at 2:2 with compute instance %s, planned with compute instance %s"
    assert mismatch(result, result.gpu) == expected % (kind[has[:-2]], kind[wants])
    assert not plan_gpu(after, want(H100, wants)).changes


def test_a_busy_one_of_the_other_kind_is_refused() -> None:
    with pytest.raises(BusyError, match=r"compute instance 0 \(1c.1g.20gb\) of GPU instance .*used by PID 1000"):
        plan_gpu(gpu(H100, "1c.1g.20gb@2", busy=[(2, 0)]), want(H100, "1g.20gb"))
    with pytest.raises(BusyError, match=r"compute instance 0 \(1c\) of GPU instance .*used by PID 1000"):
        plan_gpu(gpu(H100, "1g.20gb@2", busy=[(2, 0)]), want(H100, "1c.1g.20gb"))


def test_an_idle_one_of_the_other_kind_requires_disturb() -> None:
    with pytest.raises(DisturbError, match=r"compute instance 0 \(1c.1g.20gb\) of GPU instance"):
        plan_gpu(gpu(H100, "1c.1g.20gb@2"), want(H100, "1g.20gb"), disturb=False)


def test_a_busy_one_is_kept_if_another_of_its_kind_is_desired() -> None:
    result = plan_gpu(gpu(H100, "1g.20gb@0", "1c.1g.20gb@6", busy=[(6, 0)]), want(H100, "1c.1g.20gb"))
    assert [gi.placement.start for gi in result.destroyed] == [0] and not result.created
    assert result.kept[0].keep == (0,)


def test_as_few_as_possible_are_recreated() -> None:
    """Each of four placements has either kind or nothing; any number of either kind is desired."""
    for current in itertools.product((None, "1g.20gb", "1c.1g.20gb"), repeat=4):
        now = gpu(H100, *("%s@%d" % (name, 2 * place) for place, name in enumerate(current) if name))
        for whole, reduced in itertools.product(range(5), repeat=2):
            if whole + reduced > 4:
                continue
            result = plan_gpu(now, want(H100, *["1g.20gb"] * whole, *["1c.1g.20gb"] * reduced))
            assert sorted(kinds(carry_out(result))) == [False] * whole + [True] * reduced
            instances = min(len(now.instances), whole + reduced)
            untouched = min(current.count("1g.20gb"), whole) + min(current.count("1c.1g.20gb"), reduced)
            assert len(result.kept) == instances
            assert sum(len(kept.keep) for kept in result.kept) == untouched


# Operations


def run(driver: fake.FakeBackend, reduced: bool) -> t.Any:
    desired = Target(True, (DesiredInstance(fake.profile(fake.H100, "1g.20gb", 1), reduced=reduced),))
    (outcome,) = converge(driver, [plan_gpu(driver.gpus[0].snapshot(), desired)])
    return outcome


@pytest.mark.parametrize("reduced", [False, True])
def test_converging_creates_the_kind_desired(reduced: bool) -> None:
    node = fake.FakeGpu(board=fake.H100)
    node.add("1g.20gb", 2, reduced=not reduced)
    (before,) = node.snapshot().instances
    outcome = run(fake.FakeBackend(node), reduced)
    assert outcome.error is None and outcome.changed
    (after,) = node.snapshot().instances
    assert (after.id, after.placement) == (before.id, before.placement)
    assert [(ci.multiprocessors, ci.reduced) for ci in after.compute_instances] == [(16 if reduced else 26, reduced)]
    assert [operation.reduced for operation in outcome.performed] == [not reduced, reduced]
    assert not run(fake.FakeBackend(node), reduced).changed


def test_a_failure_restores_the_previous_kind() -> None:
    node = fake.FakeGpu(board=fake.H100)
    node.add("1g.20gb", 2, reduced=True)
    before = node.snapshot()
    create = node.create_ci

    def refuse_the_large_one(gi_id: int, profile_id: int, start: t.Optional[int]) -> int:
        if profile_id == 7:
            raise fake.Refused(NO_PERMISSION)
        return int(create(gi_id, profile_id, start))

    node.create_ci = refuse_the_large_one
    outcome = run(fake.FakeBackend(node), False)
    assert outcome.error is not None and outcome.restored
    assert node.snapshot() == before and len(outcome.performed) == 2


# Names


def test_the_map_shows_the_reduced_kind() -> None:
    both = plan_gpu(gpu(H100, "1c.1g.20gb@0", "1g.20gb@2"), want(H100, "1c.1g.20gb", "1c.1g.20gb"))
    assert [cell.text for cell in render.row(both.gpu).cells] == ["1g.20gb[1c]", "1g.20gb"]
    assert [cell.text for cell in render.row_after(both).cells] == ["1g.20gb[1c]"] * 2
    assert describe(want(H100, "1c.1g.20gb@4", "1g.20gb").instances) == "1c.1g.20gb at 4: 1, 1g.20gb: 1"


def test_documents_name_the_reduced_kind_and_read_it_back() -> None:
    current = [
        InstanceSpec("1g.20gb", 1, (1,)),
        InstanceSpec("1g.20gb", 1, (1,), True),
        InstanceSpec("1g.20gb", 1, (1,), True),
    ]
    entries = mig_parted.from_gpus({0: current})
    assert entries == [{"devices": [0], "mig-enabled": True, "mig-devices": {"1c.1g.20gb": 2, "1g.20gb": 1}}]
    assert sorted(meant(entries[0]["mig-devices"])) == [("1g.20gb", None, False)] + [("1g.20gb", None, True)] * 2


@pytest.mark.parametrize(
    "mig_devices",
    [
        {"1c.1g.20gb": 2},
        [{"profile": "1g.20gb", "count": 2, "compute_instances": ["1c.1g.20gb"]}],
        [{"profile": "1c.1g.20gb", "count": 2}],
    ],
)
def test_documents_of_layouts_name_the_reduced_kind(mig_devices: t.Any) -> None:
    entries = [{"devices": "all", "mig_enabled": True, "mig_devices": mig_devices}]
    (written,) = mig_parted.from_layout(layout.parse(entries))
    assert written["mig-devices"] == {"1c.1g.20gb": 2}
