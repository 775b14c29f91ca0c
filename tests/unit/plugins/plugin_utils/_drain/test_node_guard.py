# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a node, and changes of nodes that another run has taken."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress, runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress, Waiting
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.node_guard import NodeGuard, Reading
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, patched

Data = t.Dict[str, t.Any]
NOW = Reading(node("a"), [])


class Api:
    """Records the patches."""

    def __init__(self) -> None:
        self.patches: list[Data] = []

    def change_all(self, nodes: t.Mapping[str, Data], make: t.Callable[[Data], Data], _progress: Progress) -> Data:
        self.patches += [make(each) for each in nodes.values()]
        return dict(nodes)


@pytest.fixture(name="guard")
def fixture_guard(monkeypatch: pytest.MonkeyPatch) -> NodeGuard:
    """A guard whose time passes only while it sleeps."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return NodeGuard(t.cast(t.Any, Api()), Progress(10, lambda _text: None), runs.current(), 3600)


@pytest.mark.parametrize("first", [None, NOW])
def test_the_first_reading_is_not_repeated(guard: NodeGuard, first: Reading | None) -> None:
    given, read = [["x"], []], list[Reading]()

    def again() -> Reading:
        read.append(Reading(node("a"), []))
        return read[-1]

    last = guard.until_empty("waiting", first, again, lambda _reading: given.pop(0))
    assert last is read[-1] and len(read) == (1 if first else 2)


def test_the_reasons_that_remain(guard: NodeGuard) -> None:
    with pytest.raises(Waiting, match=r"^one; two$"):
        guard.until_empty("waiting", NOW, lambda: NOW, lambda _reading: ["one", "two"])


def test_a_node_of_another_run_is_not_changed(guard: NodeGuard) -> None:
    other = guard.run._replace(place="elsewhere")
    taken = patched(node("a"), record.cordon(node("a"), other))
    with pytest.raises(record.OtherRun):
        guard.change(taken, lambda _node: {})
    guard._replace(takeover=0).change(taken, record.uncordon)
    assert t.cast(t.Any, guard.api).patches == [record.uncordon(taken)]
