# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several GPUs, and those whose profiles are known only with MIG on."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge_node import converge_node
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import InfeasibleError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import mode_first_plan, plan_gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeBackend,
    FakeGpu,
    Refused,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.converge_support import (
    layout,
    mixed,
    off,
    run,
    target,
)


def test_a_gpu_with_late_profiles_is_planned_again_after_the_mode_is_on():
    gpu = off(lists_profiles=False)
    outcome = run(FakeBackend(gpu), target(A100, "3g.20gb"))
    assert outcome.error is None
    assert [name for name, _start, _cis in layout(gpu)] == ["3g.20gb"]
    assert len(outcome.plan.created) == 1


@pytest.mark.parametrize("board", [A100, H100])
def test_if_the_late_plan_refuses_the_mode_is_restored(board):
    gpu = off(board, lists_profiles=False)

    def refuse(_now):
        raise InfeasibleError("too much")

    driver = FakeBackend(gpu)
    outcome = converge_node(driver, [mode_first_plan(gpu.snapshot())], refuse)[0]
    assert "too much" in outcome.error and not outcome.changed
    assert (gpu.current, gpu.pending) == (False, False)
    assert driver.writes == ["set_mode", "set_mode"]


def test_a_process_that_keeps_the_mode_on_does_not_hide_that_the_late_plan_refuses():
    gpu = off(H100, lists_profiles=False)

    def refuse(_now):
        raise InfeasibleError("too much")

    driver = FakeBackend(gpu)
    driver.before = lambda _name: gpu.use(pid=5) if gpu.current and not gpu.processes else None
    outcome = converge_node(driver, [mode_first_plan(gpu.snapshot())], refuse)[0]
    assert outcome.error.startswith("too much. ")
    assert "stays on: " in outcome.error and "PID 5 (python) uses the GPU" in outcome.error
    assert outcome.changed and outcome.after.mode_current
    assert driver.writes == ["set_mode"]


def test_a_process_that_keeps_the_mode_on_does_not_hide_a_failure_or_the_other_gpus():
    gpus = [off(H100, index=index, lists_profiles=False) for index in range(2)]

    def refuse(_profile_id, _place):
        gpus[1].use(pid=5)
        raise Refused(codes.NOT_SUPPORTED)

    gpus[1].create = refuse
    desired = target(H100, "3g.40gb")
    plans = [mode_first_plan(gpu.snapshot()) for gpu in gpus]
    done, failed = converge_node(FakeBackend(*gpus), plans, lambda now: plan_gpu(now, desired))
    assert done.error is None and done.changed
    assert [name for name, _start, _cis in layout(gpus[0])] == ["3g.40gb"]
    assert "failed to create GPU instance 3g.40gb" in failed.error
    assert "MIG mode stays on: " in failed.error and "PID 5 (python) uses the GPU" in failed.error
    assert failed.changed and failed.after.mode_current


def test_a_late_plan_may_wait_for_a_reset():
    gpu = off(lists_profiles=False, activation=codes.RESET_REQUIRED)
    desired = target(A100, "3g.20gb")
    first = run(FakeBackend(gpu), desired)
    assert first.reset_required and first.error is None
    second = run(FakeBackend(gpu), desired, reset=True)
    assert second.error is None and [name for name, _start, _cis in layout(gpu)] == ["3g.20gb"]


def test_gpus_converge_in_parallel_and_are_returned_in_order():
    gpus = [FakeGpu(index) for index in range(4)]
    driver = FakeBackend(*gpus)
    meeting = threading.Barrier(4, timeout=60)

    def meet(name):
        if name == "create_gpu_instance":
            meeting.wait()  # passes only if all four create at the same time

    driver.before = meet
    desired = target(A100, "7g.40gb")
    plans = [plan_gpu(gpu.snapshot(), desired) for gpu in gpus]
    outcomes = converge(driver, plans)
    assert [outcome.before.index for outcome in outcomes] == [0, 1, 2, 3]
    assert all(outcome.error is None for outcome in outcomes)
    assert sum(len(outcome.performed) for outcome in outcomes) == 8


def test_one_gpu_that_fails_does_not_stop_the_others():
    gpus = [mixed(FakeGpu(index)) for index in range(3)]
    gpus[1].use(pid=5)
    driver = FakeBackend(*gpus)
    desired = target(A100, "7g.40gb")
    plans = [plan_gpu(gpu.snapshot(), desired) for gpu in gpus]

    def broken(*_args: object) -> int:
        raise RuntimeError("a defect")

    gpus[1].create = broken
    outcomes = converge(driver, plans)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert "internal error" in outcomes[1].error and "a defect" in outcomes[1].error
    assert [layout(gpu) for gpu in gpus[::2]] == [[("7g.40gb", 0, (7,))]] * 2
