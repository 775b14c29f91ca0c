# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What verify reports about GPUs and boot unit of a node."""

from __future__ import annotations

import datetime
import hashlib
import re
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import nvidia_mig_differences
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import Data, action, host

NOW = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
CHANGE = "2030-01-01 00:00:00 UTC by bob@elsewhere\n"
REASON = "GPU 1 is in use"
LINES = ["-GPU 0 |...|", "+GPU 0 |3g.40gb|"]
UNIT = "gpufleet-mig-restore.service"
RESTORED = {"unit": UNIT, "unit_status": {"UnitFileState": "enabled"}, "restore": {"rc": 0}}


def compared(*unmatched: str, deferred: t.Sequence[str] = (), **more: t.Any) -> Data:
    reasons = [{"reason": reason} for reason in deferred]
    return {"unmatched": list(unmatched), "deferred": reasons, "changed_lines": LINES if unmatched else [], **more}


def run(found: Data, skip_busy: bool = False, **arguments: t.Any) -> Data:
    given = {"compared": found, "skip_busy": skip_busy, **arguments}
    result: Data = action(nvidia_mig_differences, "nvidia_mig_differences", given).run(task_vars=host("a"))
    return result


def test_a_node_that_matches() -> None:
    assert run(compared(), **RESTORED) == {"changed": False, "problems": [], "deferred": []}


def test_gpus_that_do_not_match() -> None:
    (problem,) = run(compared("GPU 0", "GPU 1", deferred=[REASON]))["problems"]
    assert problem.splitlines() == [
        "GPUs do not match nvidia_mig_layout: GPU 0, GPU 1",
        *LINES,
        REASON,
        "The role has not changed the GPUs since the node booted. Apply the layout with mig.yml",
    ]
    (problem,) = run(compared("GPU 0"), last_change=CHANGE)["problems"]
    assert re.search(r"bob@elsewhere \(it is now 20[0-9: -]{17}\)\. Apply", problem)


def test_deferred_gpus_are_no_problem_where_they_are_skipped() -> None:
    result = run(compared("GPU 1", deferred=[REASON]), skip_busy=True)
    assert (result["problems"], result["deferred"]) == ([], [REASON])
    result = run(compared("GPU 0", "GPU 1", deferred=[REASON]), skip_busy=True)
    assert (len(result["problems"]), result["deferred"]) == (1, [REASON])
    assert run(compared("GPU 1", deferred=[REASON]))["deferred"] == []


def test_gpus_that_cannot_be_compared() -> None:
    assert run({"failed": True, "msg": "no driver", "busy": False})["problems"] == [
        "its MIG layout cannot be compared: no driver"
    ]


@pytest.mark.parametrize(
    ("last_change", "own", "end"),
    [
        ("", "", "The role has not changed the GPUs since the node booted"),
        (CHANGE, "", " 2030-01-01 00:00:00 UTC by bob@elsewhere (it is now 2030-01-02 03:04:05)"),
        (CHANGE, CHANGE, "by bob@elsewhere, in this run"),
        (CHANGE, "2029-12-31 00:00:00 UTC by alice@here\n", "by bob@elsewhere, after this run did"),
    ],
)
def test_who_changed_the_gpus(last_change: str, own: str, end: str) -> None:
    checksum = hashlib.sha1(own.encode()).hexdigest() if own else ""
    assert nvidia_mig_differences.history(last_change, checksum, NOW).endswith(end)


def test_a_boot_unit_that_is_not_enabled() -> None:
    missing = {"failed": True, "rc": 2, "stdout": "", "stderr": "", "msg": "Error executing command."}
    for status, restore in (({}, missing), ({"UnitFileState": "disabled"}, {"rc": 0})):
        assert run(compared(), **{**RESTORED, "unit_status": status, "restore": restore})["problems"] == [
            "its layout is not restored at boot: %s is not enabled. Run site.yml --tags mig" % UNIT
        ]


@pytest.mark.parametrize(
    ("restore", "why"),
    [
        ({"rc": 2, "stderr": "no such GPU.\n", "stdout": "GPU 0"}, "no such GPU"),
        ({"rc": 1, "stderr": "", "stdout": "GPU 0 would change"}, "GPU 0 would change"),
        ({"failed": True, "msg": "No such file"}, "No such file"),
    ],
)
def test_a_failed_dry_run(restore: Data, why: str) -> None:
    assert run(compared(), **{**RESTORED, "restore": restore})["problems"] == [
        "a dry run of the boot restore failed: %s. Run site.yml --tags mig" % why
    ]


def test_the_dry_run_may_differ_while_a_gpu_is_deferred() -> None:
    found = compared("GPU 1", deferred=[REASON])
    for status, problems in ((1, 0), (2, 1)):
        result = run(found, skip_busy=True, **{**RESTORED, "restore": {"rc": status, "stderr": "GPU 1"}})
        assert len(result["problems"]) == problems
