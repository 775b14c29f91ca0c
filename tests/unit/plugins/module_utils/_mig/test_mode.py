# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of MIG mode: resets, reboots, clients, and their rollback."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import BusyError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import (
    RESET,
    SET_MODE,
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
    off,
    run,
    target,
)


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


@pytest.mark.parametrize("used", [False, True])
def test_mode_off_without_permission_to_reset_destroys_nothing(used):
    gpu = mixed(FakeGpu(activation=codes.RESET_REQUIRED))
    if used:
        gpu.use(pid=7, name="monitor")
    driver = FakeBackend(gpu)
    outcome = run(driver, OFF)
    assert outcome.reset_required and outcome.error is None and not outcome.changed
    assert "Allow the reset with reset: true" in outcome.notice and "instances are kept" in outcome.notice
    assert ("stop all clients first: PID 7 (monitor) uses it" in outcome.notice) is used
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
    driver = FakeBackend(gpu)
    driver.before = lambda name: gpu.use(pid=7, name="jupyter") if name == "set_mode" else None
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


def test_a_pending_mode_stays_pending_under_a_client():
    gpu = mixed(FakeGpu())
    gpu.use(pid=7, name="monitor")
    gpu.pending = False
    driver = FakeBackend(gpu)
    outcome = run(driver, OFF, reset=True)
    assert outcome.reset_required and outcome.error is None and not outcome.changed
    assert "PID 7 (monitor)" in outcome.notice and "instances are kept" in outcome.notice
    assert [client.pid for client in outcome.clients] == [7]
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


@pytest.mark.parametrize(
    ("board", "profile", "place", "reset"),
    [(A100, "3g.20gb", 4, True), (H100, "3g.40gb", 4, False), (A100, None, 0, False), (A100, None, 0, True)],
)
def test_a_mode_change_under_a_client_is_refused_before_any_write(board, profile, place, reset):
    gpu = FakeGpu(board=board) if profile else off()
    if profile:
        gpu.add(profile, place)
    desired = OFF if profile else target(A100, "7g.40gb")
    first = plan_gpu(gpu.snapshot(), desired, reset=True)
    gpu.use(pid=7, name="monitor")
    with pytest.raises(BusyError, match=r"while PID 7 \(monitor\) uses the GPU. Stop it") as caught:
        plan_gpu(gpu.snapshot(), desired, reset=reset)
    assert caught.value.plan.operations == first.operations, "the change without the process"
    driver = FakeBackend(gpu)
    (outcome,) = converge(driver, [first], reset=reset)
    assert outcome.error == "%s. Nothing was changed" % caught.value
    assert driver.writes == []


def test_cancelling_a_pending_change_keeps_the_instances():
    gpu = mixed(FakeGpu())
    gpu.pending = False
    outcome = run(FakeBackend(gpu), target(A100, "3g.20gb", "1g.5gb", "1g.5gb"), reset=True)
    assert outcome.error is None and [operation.kind for operation in outcome.performed] == [SET_MODE]
    assert gpu.pending and len(gpu.instances) == 3


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
