# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.labels import PAUSED
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.runs import Run
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record as drain_record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.operands import OPERANDS
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.record import Record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.workloads import Workload
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, patched

Data = t.Dict[str, t.Any]
DEPLOY = "nvidia.com/gpu.deploy."
OPERATOR = {DEPLOY + "device-plugin": "true", DEPLOY + "dcgm": "false", DEPLOY + "gpu-feature-discovery": "custom"}
RUN = runs.current()


def cordon(item: Data) -> Data:
    return drain_record.cordon(item, RUN)


def pause(item: Data) -> Data:
    return drain_record.pause(item, RUN, OPERANDS)


def resume(item: Data) -> Data:
    return drain_record.resume(item, RUN)


def record(item: Data) -> t.Optional[Record]:
    """As if it was written when this module was imported."""
    found = drain_record.read_record(item)
    return found and found._replace(run=found.run._replace(written=RUN.written))


def test_a_node_is_afterwards_as_it_was() -> None:
    before = node("a", **OPERATOR)
    now = patched(before, cordon(before))
    assert now["spec"]["unschedulable"] and record(now) == Record(True, workloads=[], run=RUN)
    now = patched(now, pause(now))
    assert now["metadata"]["labels"][DEPLOY + "device-plugin"] == "paused-for-mig-change"
    assert now["metadata"]["labels"][DEPLOY + "dcgm"] == "false"
    now = patched(now, resume(now))
    assert now["spec"]["unschedulable"] and now["metadata"]["labels"] == before["metadata"]["labels"]
    now = patched(now, drain_record.uncordon(now))
    assert not now["spec"]["unschedulable"]
    assert now["metadata"] == {**before["metadata"], "annotations": {}}


def test_steps_can_be_repeated_after_an_interruption() -> None:
    now = node("a", **OPERATOR)
    for step in (cordon, pause):
        now = patched(now, step(now))
        assert step(now) == {}
    former = {DEPLOY + "device-plugin": "true", DEPLOY + "gpu-feature-discovery": "custom"}
    assert record(now) == Record(True, True, former, [], RUN)
    now = patched(now, resume(now))
    assert resume(now) == {}
    # From any point to the end.
    paused = patched(node("a", **OPERATOR), cordon(node("a", **OPERATOR)))
    paused = patched(paused, pause(paused))
    assert patched(paused, drain_record.uncordon(paused)) == patched(now, drain_record.uncordon(now))


def test_the_record_is_renewed_while_a_run_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a run on another controller would take it to have ended."""
    now = patched(node("a"), cordon(node("a")))
    assert drain_record.renew(now, RUN) == {}
    later = time.time() + 1000
    monkeypatch.setattr(drain_record.time, "time", lambda: later)
    now = patched(now, drain_record.renew(now, RUN))
    found = drain_record.read_record(now)
    assert found and found.run.written == int(later) and drain_record.renew(now, RUN) == {}


def test_the_workloads_of_an_interrupted_run_are_kept() -> None:
    train = Workload("default", "apps/v1", "ReplicaSet", "train", "1", 2)
    web = train._replace(name="web", uid="2", ready=1)
    now = patched(node("a"), drain_record.cordon(node("a"), RUN, [train]))
    now = patched(now, drain_record.cordon(now, RUN, [train._replace(ready=1), web]))
    known = drain_record.read_record(now)
    assert known and known.workloads == [train, web]


def test_a_foreign_cordon_remains() -> None:
    before = node("a")
    before["spec"] = {"unschedulable": True}
    now = patched(before, cordon(before))
    assert record(now) == Record(False, workloads=[], run=RUN)
    now = patched(now, drain_record.uncordon(now))
    assert now["spec"]["unschedulable"] and drain_record.read_record(now) is None


@pytest.mark.parametrize("step", [cordon, pause, lambda item: drain_record.renew(item, RUN)])
@pytest.mark.parametrize("unschedulable", [False, True])
def test_a_node_that_someone_uncordoned_meanwhile_is_cordoned_again(
    unschedulable: bool, step: t.Callable[[Data], Data]
) -> None:
    """Also if someone else had cordoned it, who now expects that it is in service afterwards."""
    before = node("a", **OPERATOR)
    before["spec"] = {"unschedulable": unschedulable}
    now = patched(before, cordon(before))
    now = patched(now, pause(now))
    now["spec"]["unschedulable"] = False
    now = patched(now, step(now))
    assert now["spec"]["unschedulable"]
    now = patched(now, drain_record.uncordon(now))
    assert not now["spec"]["unschedulable"] and now["metadata"]["labels"] == before["metadata"]["labels"]


def test_labels_that_someone_else_changed_meanwhile_remain() -> None:
    now = node("a", **OPERATOR)
    for step in (cordon, pause):
        now = patched(now, step(now))
    now["metadata"]["labels"][DEPLOY + "device-plugin"] = "false"
    now = patched(now, drain_record.uncordon(now))
    assert now["metadata"]["labels"] == {
        **node("a", **OPERATOR)["metadata"]["labels"],
        DEPLOY + "device-plugin": "false",
    }


def test_another_pause_is_not_changed() -> None:
    now = node("a", **{DEPLOY + "device-plugin": "paused-for-driver-upgrade"})
    now = patched(now, cordon(now))
    assert "labels" not in pause(now)["metadata"]


def test_the_mig_manager_pauses_the_operands_itself() -> None:
    managed = node("a", **OPERATOR, **{"nvidia.com/mig.config": "x"})
    managed = patched(managed, cordon(managed))
    assert "labels" not in drain_record.pause(managed, RUN, ())["metadata"]
    assert DEPLOY + "device-plugin" in pause(managed)["metadata"]["labels"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"cordoned": true, "labels": 1}',
        Record(True).text().replace('"workloads": []', '"workloads": [1]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a", "v1", "Secret", "b", "c", 1]]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a", "apps/v1", "ReplicaSet", "b", [], 1]]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a", "apps/v1", "ReplicaSet", "b", "c", "1"]]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a", "v1", "Job", "../../../x", "c", 1]]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a/b", "v1", "Job", "b", "c", 1]]'),
        Record(True).text().replace('"workloads": []', '"workloads": [["a", "v1", "Job", "b?x=y", "c", 1]]'),
        Record(True).text().replace('"labels": {}', '"labels": [[1, 2]]'),
        Record(True).text().replace('"labels": {}', '"labels": {"%sdcgm": {}}' % DEPLOY),
        Record(True).text().replace('"written": 0', '"written": "yesterday"'),
        Record(True).text().replace('"written": 0', '"written": Infinity'),
        "[" * 100000,
    ],
)
def test_a_damaged_record(text: str) -> None:
    damaged = node("a")
    damaged["metadata"]["annotations"] = {drain_record.RECORD: text}
    with pytest.raises(ValueError, match="the annotation .* of node a is damaged") as caught:
        drain_record.read_record(damaged)
    assert len(str(caught.value)) < 600


def test_a_record_restores_no_labels_of_others() -> None:
    """Whoever may change some labels of a node, and its annotations, must not get other labels changed."""
    now = node("a", **{"example.com/role": PAUSED, "nvidia.com/gpu.deploy.dcgm": PAUSED})
    labels = {"example.com/role": "admin", "nvidia.com/gpu.deploy.dcgm": "true"}
    now["metadata"]["annotations"] = {drain_record.RECORD: Record(True, labels=labels).text()}
    assert drain_record.uncordon(now)["metadata"]["labels"] == {"nvidia.com/gpu.deploy.dcgm": "true"}


def test_a_node_in_service_needs_no_return() -> None:
    assert resume(node("a")) == drain_record.uncordon(node("a")) == {}


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (RUN, False),
        (RUN._replace(written=0), False),
        (RUN._replace(pid=1, started=""), False),  # process 1 started at another time
        (RUN._replace(pid=2**22 + 1), False),  # no such process
        (RUN._replace(pid=-1), False),
        (RUN._replace(pid=os.getpid(), started=runs._started(os.getpid())), True),
        (RUN._replace(place="elsewhere pid:[1]"), True),
        (RUN._replace(place="elsewhere pid:[1]", written=RUN.written - 7200), False),
        (RUN._replace(place="elsewhere pid:[1]", written=RUN.written + 7200), False),
        (RUN._replace(place="elsewhere pid:[1]", written=RUN.written + 1800), True),  # its clock may be ahead
        (RUN._replace(place="elsewhere pid:[1]", written=10**400), False),
        (Run(), False),
    ],
)
def test_a_node_of_another_run(other: Run, refused: bool) -> None:
    now = node("a")
    now["metadata"]["annotations"] = {drain_record.RECORD: Record(True, run=other).text()}
    if not refused:
        assert drain_record.require_available(now, RUN, 3600)
        return
    with pytest.raises(drain_record.OtherRun, match="node a is out of service for another run, process [0-9]+ on"):
        drain_record.require_available(now, RUN, 3600)


def test_a_run_on_another_controller_can_be_declared_to_have_ended() -> None:
    now = patched(node("a"), drain_record.cordon(node("a"), RUN._replace(place="elsewhere pid:[1]")))
    assert drain_record.require_available(now, RUN, 0)
    assert drain_record.require_available(node("a"), RUN, 3600) is None


# --- Pods -------------------------------------------------------------------------------------------------------------
