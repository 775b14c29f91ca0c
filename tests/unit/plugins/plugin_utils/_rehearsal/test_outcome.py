# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import outcome

GPU = {"kept": [1], "destroyed": [1, 2], "created": [1, 2, 3]}
MAP = {
    "before": "GPU 0 GPU-1a2b... A100  MIG off\nGPU 1 GPU-3c4d... A100  MIG off",
    "after": "GPU 0 GPU-1a2b... A100  |7g|\nGPU 1 GPU-3c4d... A100  |7g|",
}
DONE: t.Dict[str, t.Any] = {
    "changed": True,
    "gpus": [GPU, GPU],
    "operations": [{"kind": "reset"}, {"kind": "create_gi"}],
    "deferred": [],
    "unmatched": [],
    "reset_required": False,
    "reboot_required": False,
    "warnings": ["a warning"],
    "diff": MAP,
}
BUSY = {
    "failed": True,
    "busy": True,
    "msg": "in use",
    "warnings": [],
    "diff": MAP,
    "gpus": [{"index": 0, "uuid": "GPU-0"}],
}
JOB: t.Dict[str, t.Any] = {"options": {"reset": False}, "reboot": False}


def found(planned: t.Any = DONE, applied: t.Any = DONE, **others: t.Any) -> outcome.Outcome:
    child = {"before": [{"name": "NVIDIA A100"}] * 2, "notes": [], "problems": [], "planned": planned, **others}
    return outcome.of_child("a", {**child, **({"applied": applied} if applied else {})}, JOB)


def test_a_change() -> None:
    assert found() == outcome.Outcome(
        "a",
        "changes",
        "2x A100",
        kept=2,
        destroyed=4,
        created=6,
        needs="1 resets, allowed",
        notes=("a warning",),
        map=("- GPUs 0-1  A100  MIG off", "+ GPUs 0-1  A100  |7g|"),
    )


def test_no_change() -> None:
    same = {**DONE, "changed": False, "operations": [], "diff": {"before": MAP["after"], "after": MAP["after"]}}
    assert (found(same, same).state, found(same, same).map) == ("unchanged", ("  GPUs 0-1  A100  |7g|",))


@pytest.mark.parametrize(
    ("planned", "applied", "state", "problem"),
    [
        ({"failed": True, "msg": "does not fit.", "warnings": []}, None, "fails", "does not fit"),
        (BUSY, None, "refused", "in use"),
        (DONE, {"failed": True, "msg": "lost", "warnings": []}, "fails", "lost"),
        (DONE, {**DONE, "deferred": [{"reason": "in use"}]}, "refused", "in use"),
        (DONE, {**DONE, "unmatched": ["GPU 1"]}, "fails", "these GPUs do not match the layout: GPU 1"),
    ],
    ids=["plan", "busy", "change", "deferred", "unmatched"],
)
def test_why_the_real_run_would_fail(planned: t.Any, applied: t.Any, state: str, problem: str) -> None:
    result = found(planned, applied)
    assert (result.state, result.problems, result.fails) == (state, (problem,), True)


def test_a_reset_that_is_not_allowed() -> None:
    result = found(DONE, {**DONE, "reset_required": True})
    assert (result.state, result.needs) == ("fails", "reset")
    assert result.problems[0].endswith(
        "a warning. Set nvidia_mig_reset to true, or reset them. Set nvidia_mig_reboot to true, or reboot the node"
    )


def test_a_reboot_recreates_what_the_plan_says() -> None:
    result = found(DONE, {**DONE, "gpus": [], "rebooted": True})
    assert (result.created, result.needs, result.problems) == (6, "reboot, allowed", ())


def test_a_start_with_problems_and_a_host_without_a_layout() -> None:
    assert found(problems=["no instance"]).state == "invalid"
    child = {"before": [{"name": "Tesla T4"}], "notes": [], "problems": []}
    assert outcome.of_child("a", child, {"options": None}).state == "no layout"


def test_ranges() -> None:
    assert outcome.ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
