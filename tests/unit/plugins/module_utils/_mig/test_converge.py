# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes, retry
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge_node import converge_node
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import BusyError, InfeasibleError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import (
    CREATE_CI,
    CREATE_GI,
    DESTROY_CI,
    DESTROY_GI,
    RESET,
    SET_MODE,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import deferred_plan, plan_gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeBackend,
    FakeGpu,
    profile,
)

OFF = Target(False)


def target(board, *names):
    """``target(A100, "3g.20gb", "1g.5gb")``; a pair is a name and compute instances."""
    return Target(
        True,
        tuple(
            DesiredInstance(profile(board, name[0]), None, name[1])
            if isinstance(name, tuple)
            else DesiredInstance(profile(board, name))
            for name in names
        ),
    )


def run(driver, desired, reset=False, index=0):
    gpu = driver.gpus[index].snapshot()
    known = gpu.profiles_known or not desired.enabled
    first = plan_gpu(gpu, desired, reset=reset) if known else deferred_plan(gpu, reset)
    return converge_node(driver, [first], lambda now: plan_gpu(now, desired, reset=reset), reset)[0]


def layout(gpu):
    """Names with compute instance sizes, in order of placement."""
    return [
        (what.name, place.start, tuple(sorted(size for _id, size, _sms, _place in cis.values())))
        for what, place, cis in sorted(gpu.instances.values(), key=lambda item: item[1])
    ]


@pytest.fixture
def a100():
    return FakeGpu(board=A100)


def mixed(gpu):
    gpu.add("3g.20gb", 4)
    gpu.add("1g.5gb", 0)
    gpu.add("1g.5gb", 1)
    return gpu


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
    a100.tells_ci_places = False
    run(FakeBackend(a100), target(A100, ("4g.20gb", (2, 1, 1))))
    assert layout(a100) == [("4g.20gb", 0, (1, 1, 2))]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("code", [codes.UNKNOWN, codes.NO_PERMISSION])
def test_after_any_failed_call_the_gpu_matches_the_plan_or_its_previous_state(code, late):
    """Also if a call fails after it took effect. Transient errors are retried, so the layout is reached."""
    desired = target(A100, "4g.20gb", ("3g.20gb", (2, 1)))
    reference = FakeBackend(mixed(FakeGpu()))
    run(reference, desired)
    assert len(reference.writes) == 9
    for position in range(len(reference.calls)):
        names = [name for name, _index in reference.calls]
        name, nth = names[position], names[:position].count(names[position])
        gpu = mixed(FakeGpu())
        before = layout(gpu)
        driver = FakeBackend(gpu)
        driver.late = late
        driver.fail = {(name, nth): code}
        outcome = run(driver, desired)
        write = name not in ("read", "compute_profiles")
        if code == codes.UNKNOWN or (late and write):
            assert outcome.error is None
        if outcome.error is None:
            assert layout(gpu) == layout(reference.gpus[0])
            assert [retry.operation.kind for retry in outcome.retries] == (
                [name_of[name]] if write and not late else []
            )
        elif "could not be read back" not in outcome.error:
            assert "injected failure" in outcome.error
            assert layout(gpu) == before, outcome.error
            assert not outcome.changed and outcome.retries == ()
            assert "previous state was restored" in outcome.error or "Nothing was changed" in outcome.error
        assert run(FakeBackend(gpu), desired).error is None
        assert layout(gpu) == layout(reference.gpus[0])


name_of = {
    "create_gpu_instance": CREATE_GI,
    "create_compute_instance": CREATE_CI,
    "destroy_gpu_instance": DESTROY_GI,
    "destroy_compute_instance": DESTROY_CI,
}


@pytest.mark.parametrize(
    "code", [codes.UNKNOWN, codes.TIMEOUT, codes.IN_USE, codes.INSUFFICIENT_RESOURCES, codes.RESET_REQUIRED]
)
def test_a_write_is_retried_after_a_transient_failure(a100, code):
    driver = FakeBackend(a100)
    driver.fail = {("create_gpu_instance", 0): code, ("create_gpu_instance", 1): code}
    outcome = run(driver, target(A100, "7g.40gb"))
    assert (outcome.error is None) == (code != codes.RESET_REQUIRED)
    assert len(outcome.retries) == (2 if outcome.error is None else 0)


def test_a_call_that_timed_out_is_not_retried(a100):
    """With timeouts of minutes, the other GPUs of a node would have no time left at boot."""
    backend = FakeBackend(a100)

    def hang(*_args: object) -> int:
        raise BackendError(codes.TIMEOUT, "nvidia-smi mig -cgi", "no response after 300 seconds", waited=True)

    backend.create_gpu_instance = hang
    outcome = run(backend, target(A100, "7g.40gb"))
    assert outcome.restored is True and outcome.retries == ()


def test_the_number_of_retries_is_limited(a100):
    driver = FakeBackend(a100)
    driver.always = {"create_gpu_instance": codes.UNKNOWN}
    outcome = run(driver, target(A100, "7g.40gb"))
    assert driver.writes == ["create_gpu_instance"] * (1 + len(retry.PAUSES))
    assert outcome.restored is True and len(outcome.retries) == len(retry.PAUSES)
    assert "injected failure" in outcome.retries[0].error


def test_a_permanent_failure_is_reported_with_the_missing_instances(a100):
    mixed(a100)
    driver = FakeBackend(a100)
    driver.always = {"create_gpu_instance": codes.INSUFFICIENT_RESOURCES}
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.restored is False and outcome.changed
    assert "failed to create GPU instance 7g.40gb at 0:8: create_gpu_instance: INSUFFICIENT_RESOURCES" in outcome.error
    for missing in ("3g.20gb at 4:4 with compute instance 3c", "1g.5gb at 0:1", "1g.5gb at 1:1"):
        assert "missing: " + missing in outcome.error
    assert "Run again" in outcome.error
    assert layout(a100) == []


def test_a_gpu_that_is_lost_midway_is_reported_from_the_journal(a100):
    mixed(a100)
    driver = FakeBackend(a100)

    def die(name):
        if name == "create_gpu_instance":
            driver.always = dict.fromkeys(
                ("read", "create_gpu_instance", "create_compute_instance", "compute_profiles"), codes.GPU_IS_LOST
            )

    driver.before = die
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.restored is False
    assert outcome.error.count("missing: ") == 3
    assert "could not be read afterwards" in outcome.error
    assert "GPU_IS_LOST" in outcome.error


def test_instances_created_by_others_during_the_run_are_kept(a100):
    """An instance that another process creates during the run must not be removed."""
    driver = FakeBackend(a100)
    driver.fail = {("create_compute_instance", 0): codes.NO_PERMISSION}
    intruded = []

    def intrude(name):
        if name == "create_compute_instance" and not intruded:
            intruded.append(a100.add("1g.5gb", 0))

    driver.before = intrude
    outcome = run(driver, target(A100, "3g.20gb"))
    assert layout(a100) == [("1g.5gb", 0, (1,))]
    assert outcome.restored is False
    assert "new: 1g.5gb at 0:1" in outcome.error


def test_a_process_that_started_after_the_plan_keeps_its_instance(a100):
    mixed(a100)
    driver = FakeBackend(a100)
    desired = target(A100, "7g.40gb")
    first = plan_gpu(a100.snapshot(), desired)
    gi_id = next(gi.id for gi in a100.snapshot().instances if gi.placement.start == 4)
    a100.use(gi_id, 0)
    (outcome,) = converge(driver, [first])
    assert "PID 4711 (python) began to use compute instance 3g.20gb in 3g.20gb at 4:4 after" in outcome.error
    assert "Nothing was changed" in outcome.error
    assert [client.pid for client in outcome.clients] == [4711]
    assert driver.writes == []


def test_a_process_that_starts_during_the_run_is_named_and_everything_is_rolled_back(a100):
    mixed(a100)
    before = a100.snapshot()
    driver = FakeBackend(a100)
    victim = next(gi.id for gi in before.instances if gi.placement.start == 4)

    def arrive(name):
        if name == "destroy_gpu_instance" and not a100.processes:
            a100.use(victim, 0, 99, "train")

    driver.before = arrive
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.restored is True
    assert [client.pid for client in outcome.clients] == [99]
    assert "IN_USE" in outcome.error and "PID 99 (train)" in outcome.error
    assert "previous state was restored" in outcome.error
    a100.processes.clear()
    assert a100.snapshot() == before


def test_a_gpu_that_changed_after_the_plan_is_not_modified(a100):
    mixed(a100)
    desired = target(A100, "7g.40gb")
    first = plan_gpu(a100.snapshot(), desired)
    a100.add("1g.5gb", 2)
    driver = FakeBackend(a100)
    (outcome,) = converge(driver, [first])
    assert "another program changed it after the plan was made" in outcome.error and "Run again" in outcome.error
    assert driver.writes == []


def test_read_back_must_match(a100):
    driver = FakeBackend(a100)

    def steal(name):
        if name == "read" and driver.writes:
            for gi_id in list(a100.instances):
                a100.instances[gi_id][2].clear()

    driver.before = steal
    outcome = run(driver, target(A100, "3g.20gb"))
    assert re.search("does not match its plan after the writes: 3g.20gb at .:4 without compute instance", outcome.error)
    assert layout(a100) == []
    assert outcome.restored is True


def test_an_unreadable_result_is_not_rolled_back(a100):
    driver = FakeBackend(a100)
    driver.fail = {("read", 1): codes.GPU_IS_LOST}
    outcome = run(driver, target(A100, "3g.20gb"))
    assert "could not be read back" in outcome.error
    assert [name for name, _start, _cis in layout(a100)] == ["3g.20gb"]
    assert outcome.restored is None and outcome.unmatched


@pytest.mark.parametrize("reads", [2, 3])
@pytest.mark.parametrize("enabled", [True, False])
def test_reads_that_fail_after_the_mode_was_set_do_not_prevent_the_rollback(enabled, reads):
    gpu = FakeGpu(board=H100, mode=not enabled)
    if not enabled:
        gpu.add("3g.40gb", 4)
    before = gpu.snapshot()
    driver = FakeBackend(gpu)
    for later in range(1, 1 + reads):  # the first is before any write
        driver.fail[("read", later)] = codes.TIMEOUT
    outcome = run(driver, target(H100, "3g.40gb") if enabled else OFF)
    assert "TIMEOUT" in outcome.error and "Its previous state was restored" in outcome.error
    assert gpu.snapshot() == before
    assert outcome.restored and outcome.unmatched


def test_a_gpu_that_reached_its_target_and_cannot_be_rolled_back_matches(a100):
    """The last read before verification fails, and so does switching back."""
    gpu = FakeGpu(board=H100, mode=False)
    driver = FakeBackend(gpu)
    driver.fail[("read", 1)] = driver.fail[("set_mode", 1)] = codes.GPU_IS_LOST
    outcome = run(driver, Target(True))
    assert gpu.current and "could not be restored" in outcome.error
    assert not outcome.unmatched


def test_new_uuids_of_restored_instances_are_reported(a100):
    """Hardware restores the old UUIDs as far as is known; if it does not, the result must report it."""
    mixed(a100)
    driver = FakeBackend(a100)
    driver.fail = {("create_gpu_instance", 0): codes.NO_PERMISSION}

    def rename(name):
        if name == "create_gpu_instance":
            a100.index = 9  # the fake's UUIDs depend on it

    driver.before = rename
    snapshot = a100.snapshot
    a100.snapshot = lambda: snapshot()._replace(index=0, uuid="GPU-same")
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.restored is True
    assert "New UUIDs of MIG devices that were recreated: MIG-9-" in outcome.error


# MIG mode


def off(board=A100, **kwargs):
    return FakeGpu(board=board, mode=False, **kwargs)


def test_mode_on_and_layout_in_one_run():
    gpu = off()
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"))
    assert outcome.error is None and not outcome.reset_required
    assert gpu.current and layout(gpu) == [("7g.40gb", 0, (7,))]


def test_mode_off_after_the_last_instance():
    gpu = mixed(FakeGpu())
    outcome = run(FakeBackend(gpu), OFF, reset=True)
    assert outcome.error is None
    assert not gpu.current and not gpu.instances
    assert outcome.performed[-1].kind == SET_MODE


def test_mode_off_without_permission_to_reset_destroys_nothing():
    gpu = mixed(FakeGpu(activation=codes.RESET_REQUIRED))
    driver = FakeBackend(gpu)
    outcome = run(driver, OFF)
    assert outcome.reset_required and outcome.error is None and not outcome.changed
    assert "Allow the reset with reset: true" in outcome.notice and "instances are kept" in outcome.notice
    assert driver.writes == []


def test_mode_off_restores_the_instances_if_an_unlisted_client_blocks_it():
    gpu = mixed(FakeGpu())
    gpu.hidden_client = True
    before = gpu.snapshot()
    outcome = run(FakeBackend(gpu), OFF, reset=True)
    assert outcome.reset_required and outcome.error is None
    assert outcome.restored is True and not outcome.changed
    assert gpu.snapshot() == before
    assert "nvidia-persistenced" in outcome.notice and "Allow the reset" not in outcome.notice


def test_mode_off_that_needs_a_reboot_keeps_the_instances_until_then():
    gpu = mixed(FakeGpu(activation=codes.RESET_REQUIRED))
    gpu.reset_error = codes.NOT_SUPPORTED
    before = gpu.snapshot()
    outcome = run(FakeBackend(gpu), OFF, reset=True)
    assert outcome.reboot_required and outcome.error is None
    assert gpu.snapshot() == before._replace(mode_pending=False)
    driver = FakeBackend(gpu)
    again = run(driver, OFF, reset=True)
    assert again.reboot_required and not again.changed
    assert driver.writes == ["reset"]


def test_instances_that_cannot_be_restored_after_a_blocked_mode_change_are_named():
    gpu = mixed(FakeGpu())
    gpu.hidden_client = True
    driver = FakeBackend(gpu)
    driver.always = {"create_gpu_instance": codes.UNKNOWN}
    outcome = run(driver, OFF, reset=True)
    assert outcome.restored is False and not outcome.reset_required
    assert "missing: 3g.20gb at 4:4" in outcome.error


def test_pending_without_permission_to_reset_is_not_an_error():
    gpu = off(activation=codes.RESET_REQUIRED)
    driver = FakeBackend(gpu)
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.error is None
    assert outcome.reset_required and not outcome.reboot_required
    assert outcome.changed and gpu.pending and not gpu.current
    assert "Allow the reset with reset: true (in the role nvidia_mig_reset), or reboot" in outcome.notice
    assert driver.writes == ["set_mode"]


def test_a_change_that_is_pending_is_left_to_a_reset():
    gpu = off(activation=codes.RESET_REQUIRED)
    desired = target(A100, "7g.40gb")
    run(FakeBackend(gpu), desired)
    driver = FakeBackend(gpu)
    again = run(driver, desired)
    assert again.reset_required and not again.changed and again.error is None
    assert driver.writes == []
    last = run(driver, desired, reset=True)
    assert not last.reset_required and layout(gpu) == [("7g.40gb", 0, (7,))]
    assert driver.writes[0] == "reset" and "set_mode" not in driver.writes


def test_a_refused_reset_destroys_no_instance():
    gpu = mixed(FakeGpu())
    gpu.pending = False
    gpu.hidden_client = True
    before = gpu.snapshot()
    driver = FakeBackend(gpu)
    outcome = run(driver, OFF, reset=True)
    assert outcome.reset_required and outcome.error is None and gpu.snapshot() == before
    assert set(driver.writes) == {"reset"}


def test_an_allowed_reset_activates_a_pending_mode():
    gpu = off(activation=codes.RESET_REQUIRED)
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"), reset=True)
    assert outcome.error is None and not outcome.reset_required
    assert RESET in [operation.kind for operation in outcome.performed]
    assert layout(gpu) == [("7g.40gb", 0, (7,))]


def test_a_gpu_with_clients_is_never_reset():
    gpu = off()
    gpu.use(pid=7, name="jupyter")
    driver = FakeBackend(gpu)
    outcome = run(driver, target(A100, "7g.40gb"), reset=True)
    assert outcome.reset_required and outcome.error is None
    assert "PID 7 (jupyter)" in outcome.notice
    assert [client.pid for client in outcome.clients] == [7]
    assert driver.writes == ["set_mode"]


def test_a_hidden_client_that_blocks_a_reset_is_inferred():
    gpu = off()
    gpu.hidden_client = True
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"), reset=True)
    assert outcome.reset_required and outcome.error is None
    assert "nvidia-persistenced" in outcome.notice and "Allow the reset" not in outcome.notice


@pytest.mark.parametrize("reset", [False, True])
def test_a_hidden_client_is_reported_whether_or_not_a_reset_is_allowed(reset):
    """The client would block a reset too, so the error must not suggest allowing one."""
    gpu = off()
    gpu.hidden_client = True
    driver = FakeBackend(gpu)
    outcome = run(driver, target(A100, "7g.40gb"), reset=reset)
    assert outcome.reset_required and "nvidia-persistenced" in outcome.notice
    assert driver.writes == ["set_mode"]


def test_a_missing_nvidia_smi_is_named():
    gpu = off(activation=codes.RESET_REQUIRED)
    gpu.reset_error = codes.FUNCTION_NOT_FOUND
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"), reset=True)
    assert outcome.reset_required and outcome.error is None
    assert "nvidia-smi" in outcome.notice and "is missing" in outcome.notice
    assert "persistenced" not in outcome.notice


@pytest.mark.parametrize("code", [codes.NOT_SUPPORTED, codes.RESET_TYPE_NOT_SUPPORTED])
def test_without_support_for_resets_a_reboot_is_required(code):
    gpu = off(activation=codes.RESET_REQUIRED)
    gpu.reset_error = code
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"), reset=True)
    assert outcome.reboot_required and not outcome.reset_required and outcome.error is None
    assert "Reboot the node" in outcome.notice


def test_a_failed_reset_is_an_error_and_the_mode_is_restored():
    gpu = off(activation=codes.RESET_REQUIRED)
    gpu.reset_error = codes.UNKNOWN
    outcome = run(FakeBackend(gpu), target(A100, "7g.40gb"), reset=True)
    assert "failed to reset the GPU" in outcome.error
    assert outcome.restored is True
    assert (gpu.current, gpu.pending) == (False, False)


def test_switching_off_under_a_client_destroys_nothing():
    """On Ampere the mode would only be pending, and the instances would be destroyed needlessly."""
    gpu = mixed(FakeGpu())
    gpu.use(pid=7, name="monitor")
    driver = FakeBackend(gpu)
    outcome = run(driver, OFF, reset=True)
    assert outcome.reset_required and outcome.error is None and not outcome.changed
    assert "PID 7 (monitor)" in outcome.notice and "instances are kept" in outcome.notice
    assert driver.writes == []


def test_hopper_refuses_a_mode_change_under_a_client_and_is_restored():
    gpu = FakeGpu(board=H100)
    gpu.add("3g.40gb", 4)
    before = gpu.snapshot()
    driver = FakeBackend(gpu)

    def arrive(name):
        if name == "set_mode" and not gpu.processes:
            gpu.use(pid=7, name="monitor")

    driver.before = arrive
    outcome = run(driver, OFF)
    assert "failed to turn MIG mode off" in outcome.error and "PID 7 (monitor)" in outcome.error
    assert not outcome.reset_required and outcome.restored is True
    gpu.processes.clear()
    assert gpu.snapshot() == before


def test_hopper_with_a_client_is_refused_before_anything_is_destroyed():
    gpu = FakeGpu(board=H100)
    gpu.add("3g.40gb", 4)
    first = plan_gpu(gpu.snapshot(), OFF)
    gpu.use(pid=7, name="monitor")
    with pytest.raises(BusyError, match=r"PID 7 \(monitor\)"):
        plan_gpu(gpu.snapshot(), OFF)
    driver = FakeBackend(gpu)
    (outcome,) = converge(driver, [first])
    assert "PID 7 (monitor)" in outcome.error and "Nothing was changed" in outcome.error
    assert driver.writes == []


def test_cancelling_a_pending_change_keeps_the_instances():
    gpu = mixed(FakeGpu())
    gpu.pending = False
    outcome = run(FakeBackend(gpu), target(A100, "3g.20gb", "1g.5gb", "1g.5gb"), reset=True)
    assert outcome.error is None and [operation.kind for operation in outcome.performed] == [SET_MODE]
    assert gpu.pending and len(gpu.instances) == 3


def test_a_gpu_with_late_profiles_is_planned_again_after_the_mode_is_on():
    gpu = off(tells_profiles=False)
    outcome = run(FakeBackend(gpu), target(A100, "3g.20gb"))
    assert outcome.error is None
    assert [name for name, _start, _cis in layout(gpu)] == ["3g.20gb"]
    assert len(outcome.plan.created) == 1


@pytest.mark.parametrize("board", [A100, H100])
def test_if_the_late_plan_refuses_the_mode_is_restored(board):
    gpu = off(board, tells_profiles=False)

    def refuse(_now):
        raise InfeasibleError("too much")

    driver = FakeBackend(gpu)
    outcome = converge_node(driver, [deferred_plan(gpu.snapshot())], refuse)[0]
    assert "too much" in outcome.error and not outcome.changed
    assert (gpu.current, gpu.pending) == (False, False)
    assert driver.writes == ["set_mode", "set_mode"]


def test_a_late_plan_may_wait_for_a_reset():
    gpu = off(tells_profiles=False, activation=codes.RESET_REQUIRED)
    desired = target(A100, "3g.20gb")
    first = run(FakeBackend(gpu), desired)
    assert first.reset_required and first.error is None
    second = run(FakeBackend(gpu), desired, reset=True)
    assert second.error is None and [name for name, _start, _cis in layout(gpu)] == ["3g.20gb"]


def test_an_error_after_switching_on_switches_off_again():
    gpu = off(H100)
    driver = FakeBackend(gpu)
    driver.always = {"create_compute_instance": codes.INSUFFICIENT_RESOURCES}
    outcome = run(driver, target(H100, "7g.80gb"))
    assert outcome.restored is True
    assert not gpu.current and not gpu.instances


@pytest.mark.parametrize("blocked", [False, True])
def test_an_error_after_a_reset_restores_the_mode_by_another_reset(blocked):
    gpu = off(activation=codes.RESET_REQUIRED)
    driver = FakeBackend(gpu)
    driver.always = {"create_compute_instance": codes.INSUFFICIENT_RESOURCES}

    def arrive(name):
        if blocked and name == "create_compute_instance" and not gpu.processes:
            gpu.use(pid=7, name="monitor")

    driver.before = arrive
    outcome = run(driver, target(A100, "7g.40gb"), reset=True)
    assert "failed to create compute instance" in outcome.error and gpu.instances == {}
    assert (gpu.current, gpu.pending) == (blocked, False)
    assert outcome.restored is not blocked
    assert ("MIG mode is on; MIG mode will be off after the next reset or reboot" in outcome.error) is blocked
    assert driver.writes.count("reset") == (1 if blocked else 2)


def test_a_mode_that_becomes_active_despite_a_client_is_used():
    gpu = off()
    gpu.use(pid=7, name="monitor")
    driver = FakeBackend(gpu)

    def leave(name):
        if name == "set_mode":
            gpu.processes.clear()

    driver.before = leave
    outcome = run(driver, target(A100, "7g.40gb"))
    assert outcome.error is None and not outcome.reset_required
    assert layout(gpu) == [("7g.40gb", 0, (7,))]


# Several GPUs


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


def test_an_empty_plan_makes_no_call():
    gpu = mixed(FakeGpu())
    driver = FakeBackend(gpu)
    assert converge(driver, []) == ()
    outcome = run(driver, target(A100, "3g.20gb", "1g.5gb", "1g.5gb"))
    assert not outcome.changed and driver.calls == []
