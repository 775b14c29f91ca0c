# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig where MIG mode changes: resets, reboots, clients, and profiles known only with MIG on."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    H100,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    off,
    on,
    places,
    warnings,
)


def pending(index=0):
    return FakeGpu(index=index, mode=False, activation=codes.RESET_REQUIRED)


def test_a_mode_change_that_needs_a_reset_is_reported_and_is_not_a_failure(node):
    driver = node(pending())
    result = driver.run(on(MIXED))
    assert "failed" not in result
    assert result["reset_required"] is True
    assert result["reboot_required"] is False
    assert result["gpus"][0]["reset_required"] is True
    assert result["gpus"][0]["mode"] == {"before": False, "desired": True, "current": False, "pending": True}
    assert [operation["kind"] for operation in result["operations"]] == ["set_mode"]
    (warning,) = warnings(result)
    assert "reset: true" in warning

    again = driver.run(on(MIXED))
    assert again["changed"] is False
    assert again["reset_required"] is True


def test_a_preview_without_permission_says_that_it_needs_a_driver_that_resets_the_gpu(node):
    driver = node(FakeGpu(mode=False), FakeGpu(index=1, mode=False, board=H100), FakeGpu(index=2))
    preview = [on({"7g.40gb": 1}, devices=[0, 2]), on({"7g.80gb": 1}, devices=[1])]
    (warning,) = warnings(driver.run(*preview, check=True))
    assert warning.startswith("GPU 0 (") and "GPU 1" not in warning and "GPU 2" not in warning
    assert "only if the driver resets the GPU itself" in warning
    assert warnings(driver.run(*preview, check=True, reset=True)) == warnings(driver.run(*preview)) == []


def test_with_permission_the_gpu_is_reset(node):
    result = node(pending()).run(on(MIXED), reset=True)
    assert "reset" in [operation["kind"] for operation in result["operations"]]
    assert result["reset_required"] is False
    assert len(result["gpus"][0]["created"]) == 3


def test_a_gpu_that_cannot_be_reset_needs_a_reboot(node):
    gpu = pending()
    gpu.reset_error = codes.NOT_SUPPORTED
    result = node(gpu).run(on(MIXED), reset=True)
    assert "failed" not in result
    assert result["reboot_required"] is True
    assert result["reset_required"] is False


@pytest.mark.parametrize("reset", [False, True])
def test_check_mode_detects_that_a_process_blocks_the_reset_for_a_pending_mode(node, reset):
    gpu = pending()
    driver = node(gpu)
    driver.run(on(MIXED))
    gpu.use(pid=4711, name="python")
    for check in (True, False):
        result = driver.run(on(MIXED), check=check, reset=reset)
        assert result["changed"] is False
        assert result["reset_required"] is True
        assert result["operations"] == result["gpus"][0]["created"] == []
        assert result["gpus"][0]["clients"] == ([{"pid": 4711, "name": "python"}] if reset else [])
        assert "PID 4711 (python)" in warnings(result)[0]
        assert "MIG off, on after a reset" in result["diff"]["after"]


def test_a_reset_applies_a_pending_mode_change(node):
    driver = node(pending())
    driver.run(on(MIXED))
    for check in (True, False):
        refused_reset = driver.run(on(MIXED), check=check)
        assert refused_reset["reset_required"] is True
        assert refused_reset["operations"] == []
    checked, done = driver.run(on(MIXED), check=True, reset=True), driver.run(on(MIXED), reset=True)
    assert checked["changed"] and done["changed"]
    assert checked["operations"] == done["operations"]
    assert [operation["kind"] for operation in done["operations"]][0] == "reset"
    assert checked["diff"] == done["diff"]
    assert done["reset_required"] is False


def test_instances_are_not_destroyed_for_a_blocked_mode_change(node):
    gpu = FakeGpu()
    gpu.add("1g.5gb", 0)
    gpu.pending = False
    gpu.use(pid=4711, name="nvidia-persistenced")
    driver = node(gpu)
    for result in (driver.run(off(), check=True, reset=True), driver.run(off(), reset=True)):
        assert result["changed"] is False
        assert result["operations"] == []
        assert result["reset_required"] is True
        assert places(result["gpus"][0]["kept"]) == ["1g.5gb at 0:1"]
        blocked = "  blocked by PID 4711 (nvidia-persistenced)\n"
        assert result["diff"]["after"] == result["diff"]["before"].replace("\n", blocked)


def test_a_refusal_that_appears_only_with_mig_on_leaves_the_node_unchanged(node):
    silent, other = FakeGpu(mode=False, lists_profiles=False), FakeGpu(index=1, mode=False, lists_profiles=False)
    plain = FakeGpu(index=2)
    plain.add("1g.5gb", 0)
    driver = node(silent, other, plain)
    result = driver.run(on(MIXED, devices=[0]), on({"4g.20gb": 1, "1g.5gb": 4}, devices=[1]), on(MIXED, devices=[2]))
    assert result["failed"] is True
    assert result["changed"] is False
    assert "entry 2 (devices: [1]), GPU 1" in result["msg"]
    assert "is off again" in result["msg"]
    notes = [text for text in warnings(result) if "is unchanged, because the layout of another GPU is rejected" in text]
    assert [text.split(" (", 1)[0] for text in notes] == ["GPU 0", "GPU 2"]
    assert [text[:6] for text in result["unmatched"]] == ["GPU 0 ", "GPU 1 ", "GPU 2 "]
    assert [gpu.current for gpu in (silent, other)] == [False, False]
    assert set(driver.writes) == {"set_mode"}


def test_a_mode_that_cannot_be_restored_after_a_refusal_is_reported(node):
    gpu = FakeGpu(mode=False, lists_profiles=False)
    driver = node(gpu)
    driver.fail[("set_mode", 1)] = codes.NO_PERMISSION
    result = driver.run(on({"4g.20gb": 1, "1g.5gb": 4}))
    assert result["failed"] is True
    assert result["changed"] is True
    assert "MIG mode was switched on" in result["msg"]
    assert "stays on" in result["msg"]


def test_a_failure_after_a_mode_first_plan_restores_the_mode_too(node):
    gpu = FakeGpu(mode=False, lists_profiles=False)
    driver = node(gpu)
    driver.always["create_compute_instance"] = codes.UNKNOWN
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is False
    assert (gpu.current, gpu.instances) == (False, {})


def test_profiles_known_only_with_mig_on_are_planned_then(node):
    gpu = FakeGpu(mode=False, lists_profiles=False)
    driver = node(gpu)
    checked = driver.run(on(MIXED), check=True)
    assert checked["gpus"][0]["mode_first"] is True
    assert [operation["kind"] for operation in checked["operations"]] == ["set_mode"]
    done = driver.run(on(MIXED))
    assert done["gpus"][0]["mode_first"] is False
    assert done["gpus"][0]["mode"] == {"before": False, "desired": True, "current": True, "pending": True}
    assert len(done["gpus"][0]["created"]) == 3
    assert driver.run(on(MIXED))["changed"] is False


def test_a_layout_that_is_refused_only_with_mig_on_is_rolled_back(node):
    gpu = FakeGpu(mode=False, lists_profiles=False)
    result = node(gpu).run(on({"3g.40gb": 1}))
    assert result["failed"] is True
    assert "3g.40gb" in result["msg"]
    assert "3g.20gb" in result["msg"]
    assert gpu.current is False
