# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a role waits for idle GPUs, and what it shows. The playbooks' tests have the refusals."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import node_idle
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import Data, action, host

BUSY = {"clients": [{"pid": 1, "name": "work"}], "msg": "processes use its GPUs: PID 1 (work)"}
IDLE: Data = {"clients": [], "msg": ""}


class Node:
    """The results of the module, the last one again and again, on a clock that only a pause advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *results: Data) -> None:
        self.results, self.now = list(results), 0.0
        self.shown: t.List[str] = []
        self.given: t.List[Data] = []
        monkeypatch.setattr(node_idle.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(node_idle.time, "sleep", lambda seconds: setattr(self, "now", self.now + seconds))
        monkeypatch.setattr(node_idle, "show", self.shown.append)

    def __call__(self, module_args: Data, **_others: object) -> Data:
        self.given.append(module_args)
        return dict(self.results.pop(0) if len(self.results) > 1 else self.results[0])

    def run(self, check: bool = False, drains: bool = True, **variables: object) -> Data:
        found = action(node_idle, "node_idle", {"role": "rke2", "reasons": ["an upgrade"], "drains": drains})
        found._execute_module, found._task.check_mode = self, check
        result: Data = found.run(task_vars=host("a", **{"rke2_busy_wait": 0, "rke2_interrupt": False, **variables}))
        return result


def test_waits_and_shows_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, BUSY, BUSY, IDLE)
    assert not node.run(rke2_busy_wait="600").get("failed")
    assert (node.now, node.shown) == (20, ["a: waiting, 600 s left: processes use its GPUs: PID 1 (work)"])
    node = Node(monkeypatch, BUSY)
    node.run(rke2_busy_wait=121)
    assert node.now == 121 and len(node.shown) == 2  # once a minute


def test_fails_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Node(monkeypatch, BUSY).run(rke2_busy_wait=25)["msg"] == (
        "a: processes use its GPUs: PID 1 (work). The role does not continue, because it would interrupt them (an "
        "upgrade). Drain the node, or set rke2_busy_wait or rke2_interrupt, and run this again"
    )


@pytest.mark.parametrize(("drains", "wait", "fails"), [(True, 0, False), (False, 0, True), (False, 600, False)])
def test_check_mode_fails_unless_the_processes_may_end_before(
    monkeypatch: pytest.MonkeyPatch, drains: bool, wait: int, fails: bool
) -> None:
    node = Node(monkeypatch, BUSY)
    found = node.run(check=True, drains=drains, rke2_busy_wait=wait)
    assert found.get("failed", False) is fails and node.now == 0
    assert [each.partition(":")[0] for each in found.get("warnings", [])] == ([] if fails else ["Would fail now"])


def test_does_not_repeat_a_module_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, {"failed": True, "msg": "no Python"})
    assert node.run(rke2_busy_wait=600)["msg"] == "no Python" and node.now == 0


def test_processes_of_the_clients_of_the_mig_role_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, IDLE)
    node.run()
    node.run(nvidia_mig_clients=["dcgm.service"])
    assert [given.get("units") for given in node.given] == [None, ["dcgm.service"]]
