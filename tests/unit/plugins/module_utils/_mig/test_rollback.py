# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures during a change, after which the GPU is restored."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import (
    CREATE_CI,
    CREATE_GI,
    DESTROY_CI,
    DESTROY_GI,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeBackend,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.converge_support import (
    OFF,
    layout,
    mixed,
    run,
    target,
)

KINDS = {
    "create_gpu_instance": CREATE_GI,
    "create_compute_instance": CREATE_CI,
    "destroy_gpu_instance": DESTROY_GI,
    "destroy_compute_instance": DESTROY_CI,
}


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
            assert [retry.operation.kind for retry in outcome.retries] == ([KINDS[name]] if write and not late else [])
        elif "could not be read back" not in outcome.error:
            assert "injected failure" in outcome.error
            assert layout(gpu) == before, outcome.error
            assert not outcome.changed and outcome.retries == ()
            assert "previous state was restored" in outcome.error or "Nothing was changed" in outcome.error
        assert run(FakeBackend(gpu), desired).error is None
        assert layout(gpu) == layout(reference.gpus[0])


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
    wrong = "3g.20gb at .:4 without compute instance, planned with compute instance 3c"
    assert re.search("does not match its plan after the writes: %s" % wrong, outcome.error)
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
