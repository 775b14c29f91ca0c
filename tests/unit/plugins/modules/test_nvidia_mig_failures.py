# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig when calls of the driver fail."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    on,
    places,
    refused,
)


def test_a_transient_error_while_gpus_are_counted_is_retried(node):
    driver = node(FakeGpu())
    driver.fail[("count", 0)] = codes.UNKNOWN
    assert driver.run(on({"4g.20gb": 1}))["changed"] is True


def test_a_failure_returns_the_full_result_and_the_restored_instances(node):
    gpu = FakeGpu()
    gpu.add("2g.10gb", 0)
    driver = node(gpu)
    driver.fail[("create_gpu_instance", 0)] = codes.NO_PERMISSION
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is False
    assert "NO_PERMISSION" in result["msg"]
    assert gpu.uuid in result["msg"]
    assert places(result["gpus"][0]["kept"]) == ["2g.10gb at 0:2"]
    assert result["operations"][0]["kind"] == "destroy_compute_instance"
    assert result["diff"]["before"] == result["diff"]["after"]


def test_retries_are_in_the_result(node):
    driver = node(FakeGpu())
    driver.fail[("create_gpu_instance", 0)] = codes.INSUFFICIENT_RESOURCES
    (gpu,) = driver.run(on({"7g.40gb": 1}))["gpus"]
    (retried,) = gpu["retries"]
    assert (retried["kind"], retried["profile"], retried["placement"]) == ("create_gpu_instance", "7g.40gb", "0:8")
    assert "INSUFFICIENT_RESOURCES" in retried["error"]
    assert driver.run(on({"7g.40gb": 1}))["gpus"][0]["retries"] == []


def test_a_gpu_that_cannot_be_restored_counts_as_changed(node):
    driver = node(FakeGpu(mode=False))

    def lose(call):
        if call == "set_mode":
            driver.always["read"] = codes.GPU_IS_LOST

    driver.before = lose
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is True
    assert [operation["kind"] for operation in result["operations"]][0] == "set_mode"


def test_failures_of_many_gpus_are_summarised_and_listed_per_gpu(node):
    gpus = [FakeGpu(index) for index in range(8)]
    for gpu in gpus:
        gpu.add("2g.10gb", 0)
    driver = node(*gpus)
    driver.always.update(create_gpu_instance=codes.UNKNOWN, create_compute_instance=codes.UNKNOWN)
    result = driver.run(on(MIXED))
    assert len(result["msg"]) < 1500 and "more" in result["msg"]
    assert all(gpu["uuid"] in gpu["error"] and "missing: 2g.10gb" in gpu["error"] for gpu in result["gpus"])


def test_a_failure_of_one_gpu_does_not_hide_the_others(node):
    good, bad = FakeGpu(index=0), FakeGpu(index=1, mode=False)
    driver = node(good, bad)
    driver.always["set_mode"] = codes.UNKNOWN
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is True
    assert len(result["msg"].splitlines()) == 1
    assert [len(gpu["created"]) for gpu in result["gpus"]] == [3, 0]


def test_a_driver_that_does_not_open_is_a_failure_with_the_remedy(node):
    driver = node(FakeGpu())

    def refuse():
        raise BackendError(codes.DRIVER_NOT_LOADED, "nvmlInit", "", "Load it with modprobe nvidia")

    driver.open = refuse
    assert refused(driver, on(MIXED)) == "nvmlInit: DRIVER_NOT_LOADED. Load it with modprobe nvidia"
