# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import node_labels
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.node_labels import Labelled, LabelRequest
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress, runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.pods import Pod
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import Progress
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.node_guard import NodeGuard
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, pod

Data = t.Dict[str, t.Any]
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CHANGE = {"a": {CONFIG: "new", STATE: None}}
REMOVAL = {"a": {CONFIG: None, STATE: None}}


class Api:
    """Nodes that have labels, and MIG managers by name and node. Lists the changes."""

    def __init__(self, **managers: str) -> None:
        self.managers = [pod(name, on) for name, on in managers.items()]
        self.changes: t.List[t.Any] = []

    def nodes(self, names: t.Sequence[str], *others: Data) -> t.Tuple[Data, t.List[Data]]:
        return {name: node(name, **{CONFIG: "old", STATE: "failed"}) for name in names}, self.managers if others else []

    def read(self, *_requested: Data) -> t.List[t.List[Data]]:
        return [self.managers]

    def restart(self, pods: t.Sequence[Pod], _progress: Progress) -> None:
        self.changes += [each.name for each in pods]

    def change_all(self, nodes: Data, make: t.Callable[[Data], Data], _progress: Progress) -> Data:
        self.changes += [(name, make(item)["metadata"]["labels"]) for name, item in nodes.items()]
        return nodes


def change(api: Api, *given: t.Any, check_mode: bool = False, timeout: int = 0, **options: t.Any) -> Labelled:
    guard = NodeGuard(t.cast(t.Any, api), Progress(timeout, lambda _text: None), runs.current(), 0)
    request = LabelRequest(*given, **{"managers": "gpu-operator", **options})
    return node_labels.change_labels(guard, request, check_mode)


def test_the_mig_manager_is_restarted_before_its_label_changes() -> None:
    """Not those on other nodes."""
    api = Api(one="a", two="b")
    result = change(api, CHANGE)
    assert api.changes == ["one", ("a", CHANGE["a"])] and result.changed
    (diff,) = result.diff
    assert (diff["before"], diff["after"]) == ({CONFIG: "old", STATE: "failed"}, {CONFIG: "new"})


def test_a_failed_configuration_is_applied_again() -> None:
    """Its state is removed before the MIG manager, which sets it again, is restarted."""
    api = Api(one="a")
    assert change(api, {}, ["a"]).changed and api.changes == [("a", {STATE: None}), "one"]


def test_labels_are_removed_after_the_mig_manager_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts would apply the old configuration again, and one that runs the default of the operator."""
    api = Api(one="a", two="b")

    def deleted(_seconds: float) -> None:
        assert api.changes == []
        api.managers[0]["metadata"]["deletionTimestamp"] = "now"

    monkeypatch.setattr(progress.time, "sleep", deleted)
    assert not change(api, REMOVAL, timeout=5).problem
    assert api.changes == [("a", REMOVAL["a"])] and "deletionTimestamp" in api.managers[0]["metadata"]


def test_labels_stay_while_the_mig_manager_runs() -> None:
    api = Api(one="a")
    problem = change(api, REMOVAL).problem
    assert problem.startswith("the MIG manager still runs on node a, although the chart has disabled it")
    assert api.changes == []


@pytest.mark.parametrize("labels", [CHANGE, REMOVAL])
def test_labels_that_no_mig_manager_reads(labels: t.Any) -> None:
    api = Api(one="a")
    assert change(api, labels, managers="").changed and api.changes == [("a", labels["a"])]


def test_nothing_to_label() -> None:
    api = Api(one="a")
    assert change(api, {}) == Labelled() and api.changes == []


def test_check_mode_shows_the_difference() -> None:
    api = Api(one="a")
    result = change(api, CHANGE, check_mode=True)
    assert result.changed and result.diff[0]["after"] == {CONFIG: "new"} and api.changes == []
