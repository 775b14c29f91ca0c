# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One GPU, with the writes that a plan makes and what is reported of them."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Target
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeBackend,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.converge_support import (
    layout,
    mixed,
    run,
    target,
)


def test_creates_the_desired_instances_and_reports_them_with_ids(a100):
    outcome = run(FakeBackend(a100), target(A100, "3g.20gb", ("4g.20gb", (2, 1, 1))))
    assert outcome.error is None and outcome.restored is None
    assert outcome.changed
    assert layout(a100) == [("4g.20gb", 0, (1, 1, 2)), ("3g.20gb", 4, (3,))]
    assert outcome.after == a100.snapshot()
    assert all(operation.gi_id is not None for operation in outcome.performed)
    assert [operation.ci_id for operation in outcome.performed if operation.slices] == [0, 1, 2, 0]


def test_keeps_instances_that_match(a100):
    mixed(a100)
    before = {gi.id: gi for gi in a100.snapshot().instances}
    outcome = run(FakeBackend(a100), target(A100, "3g.20gb", "1g.5gb", "2g.10gb"))
    assert outcome.error is None
    assert sorted(name for name, _start, _cis in layout(a100)) == ["1g.5gb", "2g.10gb", "3g.20gb"]
    assert len([gi for gi in outcome.after.instances if before.get(gi.id) == gi]) == 2


def test_a_second_run_does_nothing(a100):
    desired = target(A100, "3g.20gb", "1g.5gb")
    driver = FakeBackend(a100)
    run(driver, desired)
    driver.calls.clear()
    outcome = run(driver, desired)
    assert not outcome.changed and not outcome.performed
    assert driver.calls == []


def test_several_compute_instances_are_placed_where_all_fit(a100):
    """Two of two slices in 4g can start at 0 and 2 only: a first one at 1 would block both."""
    run(FakeBackend(a100), target(A100, ("4g.20gb", (2, 2))))
    assert layout(a100) == [("4g.20gb", 0, (2, 2))]


def test_a_whole_instance_gets_all_its_multiprocessors():
    gpu = FakeGpu(board=H100)
    wide = next(p for p in H100.profiles if p.constant == 9)
    run(FakeBackend(gpu), Target(True, (DesiredInstance(wide),)))
    assert [ci.multiprocessors for ci in gpu.snapshot().instances[0].compute_instances] == [26]


def test_several_one_slice_instances_get_a_kind_that_fits_together():
    gpu = FakeGpu(board=H100)
    run(FakeBackend(gpu), target(H100, ("2g.20gb", (1, 1))))
    assert [ci.multiprocessors for ci in gpu.snapshot().instances[0].compute_instances] == [16, 16]


def test_compute_instances_without_known_placements_are_left_to_the_driver(a100):
    a100.lists_ci_places = False
    run(FakeBackend(a100), target(A100, ("4g.20gb", (2, 1, 1))))
    assert layout(a100) == [("4g.20gb", 0, (1, 1, 2))]


def test_an_empty_plan_makes_no_call():
    gpu = mixed(FakeGpu())
    driver = FakeBackend(gpu)
    assert converge(driver, []) == ()
    outcome = run(driver, target(A100, "3g.20gb", "1g.5gb", "1g.5gb"))
    assert not outcome.changed and driver.calls == []
