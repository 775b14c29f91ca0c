# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which steps of the role nvidia_mig follow its plan."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import nvidia_mig_steps
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import SEVEN, Data, action, host
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu

REASON = "GPU 1 is in use"
BUSY = {"uuid": "GPU-1", "reason": REASON, "clients": [{"pid": 7, "name": "training"}]}
OPERATION = {"kind": "destroy_gi"}
STEPS = {"deferred": [], "converge": False, "verify": False, "preview": []}
CHANGE = {**STEPS, "converge": True, "verify": True}
NO_CLIENTS = {"stopped": [], "others": [7]}
CLIENTS = {"stopped": ["dcgm.service"], "others": []}


def planned(disruption: str = "none", *deferred: Data, **more: t.Any) -> Data:
    return {"disruption": disruption, "deferred": list(deferred), "operations": [], "gpus": [], **more}


# All that such a plan returns.
REFUSED = {
    "failed": True,
    "busy": True,
    "disruption": "destroy",
    "deferred": [BUSY],
    "gpus": [
        {"index": 0, "uuid": "GPU-0", "changed": True, "reset_required": False},
        {"index": 1, "uuid": "GPU-1", "changed": False, "reset_required": False},
        {"index": 2, "uuid": "GPU-2", "changed": False, "reset_required": False},
    ],
}
NEED_RESET = [{**gpu, "reset_required": not gpu["changed"]} for gpu in REFUSED["gpus"]]
NOTHING = planned()
IDLE = planned("destroy", operations=[OPERATION])
ONLY_BUSY = planned("destroy", BUSY)
BOTH = planned("destroy", BUSY, operations=[OPERATION])


class Role:
    """The action, with settings of the role, on a node with these clients."""

    def __init__(self, plan: Data, services: Data = NO_CLIENTS, check_mode: bool = False, **settings: t.Any) -> None:
        self.services = services
        self.given: t.List[Data] = []
        self.arguments = {
            "plan": plan,
            "interrupted": False,
            "skip_busy": False,
            "busy_wait": 0,
            "record": "/run/record",
            "clients": ["dcgm*.service"],
            "mode_clients": ["persistenced.service"],
            "layout": SEVEN,
            **settings,
        }
        self.variables = host("a", ansible_check_mode=check_mode)

    def _execute(self, name: str, arguments: Data, **_others: object) -> Data:
        assert name == "gpufleet.node.nvidia_mig_services"
        self.given.append(arguments)
        return dict(self.services)

    def run(self) -> Data:
        found = action(nvidia_mig_steps, "nvidia_mig_steps", self.arguments)
        found._execute_module = self._execute
        result: Data = found.run(task_vars=self.variables)
        return result

    def steps(self) -> Data:
        result = self.run()
        return {name: result[name] for name in STEPS}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("plan", "expected"), [(NOTHING, STEPS), (IDLE, CHANGE), (planned("create"), CHANGE)])
def test_without_processes(plan: Data, skip: bool, expected: Data) -> None:
    assert Role(plan, skip_busy=skip).steps() == expected
    assert Role(plan, skip_busy=skip, interrupted=True).steps() == CHANGE
    assert Role(plan, skip_busy=skip, interrupted=True, check_mode=True).steps() == STEPS


def test_processes_that_the_role_can_neither_stop_nor_await() -> None:
    for services in (NO_CLIENTS, {"stopped": ["dcgm.service"], "others": [7], "warnings": ["split"]}):
        for check_mode in (False, True):
            result = Role(REFUSED, services, check_mode).run()
            reason, remedy = result["msg"].splitlines()
            assert (result["failed"], reason, result["warnings"]) == (
                True,
                "a: " + REASON,
                services.get("warnings", []),
            )
            assert remedy.startswith("To wait for them, set nvidia_mig_busy_wait; ")


def test_processes_that_end_with_the_clients_or_while_the_role_waits() -> None:
    for plan, skip in ((REFUSED, False), (ONLY_BUSY, True)):
        assert Role(plan, CLIENTS, skip_busy=skip).steps() == CHANGE
        assert Role(plan, NO_CLIENTS, skip_busy=skip, busy_wait=1).steps() == CHANGE
        assert Role(plan, CLIENTS, check_mode=True, skip_busy=skip).steps() == STEPS


def test_processes_that_a_drain_may_end_are_a_warning_in_check_mode() -> None:
    for plan in (REFUSED, planned("mode", BUSY, gpus=NEED_RESET[:2])):
        result = Role(plan, check_mode=True, drains=True).run()
        assert (result["warnings"], result["changing"]) == (["Would fail now: " + REASON], ["GPU-0", "GPU-1"])
    assert Role(REFUSED, drains=True).run()["failed"]
    needs = planned("mode", BUSY, gpus=NEED_RESET, warnings=["GPU 2 needs a reset"])
    assert Role(needs, check_mode=True, drains=True).run()["failed"]


def test_the_gpus_that_change_include_those_whose_processes_end_before() -> None:
    for settings in ({"busy_wait": 1}, {"services": CLIENTS}):
        for skip in (True, False):
            assert Role(REFUSED, skip_busy=skip, **settings).run()["changing"] == ["GPU-0", "GPU-1"]
    skipped = {**REFUSED, "failed": False, "busy": False, "operations": []}
    assert Role(skipped, skip_busy=True).run()["changing"] == ["GPU-0"]
    assert Role({**REFUSED, "gpus": NEED_RESET}, busy_wait=1).run()["changing"] == ["GPU-0", "GPU-1"]
    assert Role(REFUSED).run()["changing"] == []


def test_undo_and_a_preview_fail_if_a_gpu_needs_a_reset_that_is_not_allowed() -> None:
    plan = planned("mode", gpus=NEED_RESET, warnings=["GPU 1 needs a reset", "GPU 2 too"])
    result = Role(plan, undo=True).run()
    assert result["failed"]
    assert result["msg"] == "a: MIG mode cannot be disabled: GPU 1 needs a reset. GPU 2 too. Nothing was changed."
    assert Role(IDLE, undo=True).steps() == Role(plan, undo=True, reboot=True).steps() == Role(plan).steps() == CHANGE
    preview = "a: The MIG mode of some GPUs changes only with a reset or reboot: GPU 1 needs a reset. GPU 2 too."
    for settings in ({}, {"skip_busy": True}, {"busy_wait": 1}):
        failed = Role(plan, CLIENTS, check_mode=True, **settings).run()
        assert (failed["msg"], failed["changing"]) == (preview, ["GPU-0"])
    assert Role(plan, check_mode=True, reboot=True).steps() == STEPS


def test_undo_and_a_preview_fail_if_processes_prevent_the_reset_or_reboot() -> None:
    plan = planned("mode", BUSY, gpus=NEED_RESET[:2], warnings=["GPU 1 needs a reset"])
    for reboot in (False, True):
        for settings in ({"undo": True}, {"check_mode": True}):
            assert Role(plan, reboot=reboot, **settings).run()["failed"]
            assert Role(plan, CLIENTS, reboot=reboot, **settings).steps()["deferred"] == []
        assert Role(plan, check_mode=True, reboot=reboot, skip_busy=True).steps()["deferred"] == [REASON]
        assert Role(plan, reboot=reboot).steps() == CHANGE


@pytest.mark.parametrize(
    ("plan", "interrupted", "converge"),
    [(ONLY_BUSY, False, False), (ONLY_BUSY, True, True), (BOTH, False, True), (BOTH, True, True)],
)
def test_blocked_gpus_that_are_skipped(plan: Data, interrupted: bool, converge: bool) -> None:
    expected = {**CHANGE, "deferred": [REASON], "converge": converge}
    assert Role(plan, skip_busy=True, interrupted=interrupted).steps() == expected
    assert Role(plan, skip_busy=True, interrupted=interrupted, check_mode=True).steps() == {
        **STEPS,
        "deferred": [REASON],
    }


def test_finds_the_clients_of_a_disruptive_change_only() -> None:
    role = Role({**REFUSED, "disruption": "mode"}, {**CLIENTS, "warnings": ["split"]})
    assert role.run()["warnings"] == ["split"]
    assert role.given == [
        {
            "state": "stopped",
            "disruption": "mode",
            "processes": [7],
            "record": "/run/record",
            "clients": ["dcgm*.service"],
            "mode_clients": ["persistenced.service"],
            "layout": SEVEN,
        }
    ]
    role = Role(NOTHING)
    role.run()
    assert role.given == []


def test_fails_if_the_clients_cannot_be_found() -> None:
    failure = {"failed": True, "msg": "The record of stopped units is damaged"}
    result = Role(IDLE, failure).run()
    assert (result["failed"], result["msg"]) == (True, failure["msg"])


def test_previews_gpus_whose_profiles_are_unknown() -> None:
    gpus = [{**each, "mode_first": each["index"] == 1} for each in REFUSED["gpus"][:2]]
    for backend, name in (("nvidia_smi", "nvidia-smi"), ("nvml", "The driver")):
        role = Role(planned("mode", gpus=gpus, backend=backend), check_mode=True)
        role.variables["ansible_facts"] = {"nvidia": {"gpus": [gpu(0), gpu(1, current=False)]}}
        reason, line = role.steps()["preview"]
        assert reason.startswith(name + " lists the profiles of a GPU only while MIG mode is on.")
        assert line.startswith("GPU 1 ") and line.count("|1g.10gb") == 7
        role.variables["ansible_check_mode"] = False
        assert role.steps()["preview"] == []


def test_previews_nothing_where_the_node_lists_no_gpus() -> None:
    role = Role(planned("create", gpus=[{**REFUSED["gpus"][0], "mode_first": True}]), check_mode=True)
    role.variables["ansible_facts"] = {"nvidia": {"gpus": None}}
    assert role.steps()["preview"] == []
