# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig on GPUs in use."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    on,
    places,
    refused,
)


def test_busy_instances_are_refused_in_check_mode_too(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    assert "PID 4711 (python)" in refused(node(gpu), on(MIXED), check=True)


def test_a_refusal_reports_whether_only_processes_block_it(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    result = node(gpu, FakeGpu(index=1), FakeGpu(index=2)).run(on(MIXED, devices=[0, 1]))
    assert result["busy"] is True
    (deferred,) = result["deferred"]
    assert (deferred["index"], deferred["uuid"]) == (0, gpu.uuid)
    assert deferred["reason"] == result["msg"]
    assert deferred["clients"] == [{"pid": 4711, "name": "python"}]
    assert not {"gpus", "diff"} & result.keys(), "a user who waits for the processes reads only what blocks"
    assert "busy" not in node(gpu, FakeGpu(index=1)).run(on(MIXED), on({"7g.40gb": 2}, devices=[1]))
    assert "busy" not in node(FakeGpu()).run(on({"7g.40gb": 2}))


def test_in_check_mode_a_refusal_shows_the_maps_of_all_gpus(node):
    gpu, idle = FakeGpu(), FakeGpu(index=1)
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    driver = node(gpu, idle)
    result = driver.run(on(MIXED), check=True, diff=True)
    assert result["failed"] and result["busy"]
    lines = result["msg"].splitlines()
    assert "PID 4711 (python). Stop these processes" in lines[0]
    assert [line[: len("-GPU 0")] for line in lines[1:]] == ["-GPU 0", "-GPU 1", "+GPU 0", "+GPU 1"]
    assert re.search(r"\|1g\.5gb +\|1g\.5gb +\|[.|]+\|3g\.20gb +\|  blocked by PID 4711 \(python\)$", lines[3])
    assert lines[4].endswith("|") and "3g.20gb" in lines[4]
    assert result["diff"]["after"].splitlines() == [line[1:] for line in lines[3:]]
    assert result["gpus"] == [
        {"index": each.index, "uuid": each.uuid, "changed": each is idle, "mode_first": False, "reset_required": False}
        for each in (gpu, idle)
    ]
    without = driver.run(on(MIXED), check=True)
    assert without["msg"] == lines[0] and without["diff"] == result["diff"]


def test_idle_gpus_change_and_busy_ones_are_deferred_if_requested(node):
    gpu, idle = FakeGpu(), FakeGpu(index=1)
    gpu.use(gpu.add("4g.20gb", 0), 0, 4711, "python")
    gpu.add("3g.20gb", 4)
    driver = node(gpu, idle)
    checked, done = (driver.run(on(MIXED), check=check, busy="skip") for check in (True, False))
    for result in (checked, done):
        assert result["changed"] is True
        assert [found["changed"] for found in result["gpus"]] == [False, True]
        assert [(each["index"], each["uuid"]) for each in result["deferred"]] == [(0, gpu.uuid)]
        assert "used by PID 4711 (python). Stop these processes" in result["deferred"][0]["reason"]
        assert result["deferred"][0]["clients"] == [{"pid": 4711, "name": "python"}]
        assert result["deferred"][0]["reason"] in json.dumps(result["warnings"])
        assert result["disruption"] == "destroy", "clients that can be stopped may block the change"
    assert checked["operations"] == done["operations"]
    assert {each["gpu"] for each in done["operations"]} == {1}
    assert len(checked["unmatched"]) == 2 and done["unmatched"] == ["GPU 0 %s" % gpu.uuid]
    # Check mode shows the change without the process, for example to drain the node.
    assert places(checked["gpus"][0]["kept"]) == ["3g.20gb at 4:4"]
    assert places(checked["gpus"][0]["destroyed"]) == ["4g.20gb at 0:4"]
    assert places(done["gpus"][0]["kept"]) == ["4g.20gb at 0:4", "3g.20gb at 4:4"]
    assert done["gpus"][0]["created"] == done["gpus"][0]["destroyed"] == []
    again = driver.run(on(MIXED), busy="skip")
    assert (again["changed"], again["operations"], len(again["deferred"])) == (False, [], 1)

    gpu.processes.clear()
    assert driver.run(on(MIXED), busy="skip")["deferred"] == []
    assert driver.run(on(MIXED))["changed"] is False


def test_a_reset_of_a_pending_mode_that_a_process_blocks_is_deferred(node):
    gpu = FakeGpu(mode=False)
    gpu.pending = True
    gpu.use(pid=4711, name="python")
    for busy in ("skip", "fail"):
        result = node(gpu).run(on(MIXED), reset=True, busy=busy)
        assert result["gpus"][0]["reset_required"] is True
        assert "PID 4711 (python) uses it" in result["deferred"][0]["reason"]
        assert result["reset_required"] is (busy == "fail")


def test_other_problems_are_not_skipped(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    driver = node(gpu, FakeGpu(index=1))
    assert "GPU 1" in refused(driver, on(MIXED), on({"7g.40gb": 2}, devices=[1]), busy="skip")
    assert driver.writes == []


@pytest.mark.parametrize(("board", "profile"), [(A100, "3g.20gb"), (H100, "3g.40gb")])
def test_a_mode_change_that_a_process_blocks_is_refused_or_deferred_in_check_mode_too(node, board, profile):
    gpus = [FakeGpu(board=board, index=index, mode=False) for index in range(2)]
    gpus[1].use(pid=4711, name="python")
    driver, reason = node(*gpus), "MIG mode cannot be switched on while PID 4711 (python) uses the GPU. Stop it"
    for check in (True, False):
        assert reason in refused(driver, on({profile: 2}), check=check)
    assert driver.writes == []
    for check in (True, False):
        result = driver.run(on({profile: 2}), check=check, busy="skip")
        assert [gpu["changed"] for gpu in result["gpus"]] == [True, False]
        assert [reason in each["reason"] for each in result["deferred"]] == [True]
        assert not result["reset_required"] and result["disruption"] == "mode"
    assert [(gpu.current, gpu.pending) for gpu in gpus] == [(True, True), (False, False)]


def test_idle_instances_are_refused_where_they_must_not_be_disturbed(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    message = refused(node(gpu), on(MIXED), disturb=False)
    assert "7g.40gb at 0:8" in message
    assert "disturb" in message


def test_without_disturbing_instances_can_be_added(node):
    gpu = FakeGpu()
    gpu.add("3g.20gb", 4)
    result = node(gpu).run(on(MIXED), disturb=False)
    assert len(result["gpus"][0]["created"]) == 2
