# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_node_batch
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action

Data = t.Dict[str, t.Any]
EVERY = ("b", "a", "c", "d")


@pytest.fixture(name="run")
def fixture_run(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., t.Tuple[Data, t.List[str]]]:
    def run(
        current: str,
        failed: str = "",
        every: t.Sequence[str] = EVERY,
        check: bool = False,
        done: str = "",
        **arguments: t.Any,
    ) -> t.Any:
        shown: t.List[str] = []
        monkeypatch.setattr(gpu_node_batch, "show", shown.append)
        alive = [host for host in every if host not in failed]
        plays = {"ansible_play_hosts_all": every, "ansible_play_hosts": alive, "ansible_play_batch": list(current)}
        groups = {"gpu_cluster_done": list(done)} if done else {}
        batch = action(gpu_node_batch, "gpu_node_batch", arguments)
        batch._task.check_mode = check
        return batch.run(task_vars={**plays, "groups": groups}), shown

    return run


def test_the_progress(run: t.Callable[..., t.Any]) -> None:
    assert run("b") == ({"changed": False}, ["Done: none. Failed: none. Now: b. Left: a, c, d"])
    assert run("c", failed="a", most=25)[1] == ["Done: b. Failed: a. Now: c. Left: d"]
    assert run("b", scope="to_drain")[1] == ["Done: a. Failed: none. Now: b. Left: c, d"]
    assert run("c", done="eb", scope="to_drain")[1] == ["Done: e, a, b. Failed: none. Now: c. Left: d"]
    assert run("c", check=True)[1] == ["Checked: b, a. Failed: none. Now: c. Left: d"]
    assert run("b", every="b", done="a", scope="to_drain")[1] == ["Done: a. Failed: none. Now: b. Left: none"]


def test_long_lists_are_cut(run: t.Callable[..., t.Any]) -> None:
    (line,) = run("a", every=["a", *("node-%03d" % number for number in range(1000))])[1]
    assert len(line) < 400 and line.endswith("...")


@pytest.mark.parametrize("hosts", ["bacd", "c"])
def test_plays_without_batches_show_no_progress(run: t.Callable[..., t.Any], hosts: str) -> None:
    assert run(hosts, scope="cluster" if hosts == "c" else "node")[1] == []


def test_a_failure_stops_the_next_batch(run: t.Callable[..., t.Any]) -> None:
    result, shown = run("c", failed="a")
    assert result["failed"] and result["msg"].startswith("Not changed: c, d, because of a. See") and not shown
    assert run("c", failed="a", most=24)[0]["failed"]
    assert "failed" not in run("c", failed="a", most=25)[0]


def test_plays_after_the_batches_tolerate_no_failure(run: t.Callable[..., t.Any]) -> None:
    result, _shown = run("bcd", failed="a", most=100, scope="cluster")
    assert result["msg"].startswith("Nothing else was changed, because of a")
