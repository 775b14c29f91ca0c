# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.runs import Run
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import evictions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record as drain_record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.record import Record
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.workloads import Workload
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes import node, patched, plugin, user

Data = t.Dict[str, t.Any]
DEPLOY = "nvidia.com/gpu.deploy."
OPERATOR = {DEPLOY + "device-plugin": "true", DEPLOY + "dcgm": "false", DEPLOY + "gpu-feature-discovery": "custom"}
RUN = runs.current()
MIG_MANAGER = {"app": "nvidia-mig-manager"}
MANIFEST = {"name": "nvidia-device-plugin-ds"}  # pods of the static manifest, which has no chart


def cordon(item: Data) -> Data:
    return drain_record.cordon(item, RUN)


def pause(item: Data) -> Data:
    return drain_record.pause(item, RUN)


def resume(item: Data) -> Data:
    return drain_record.resume(item, RUN)


def record(item: Data) -> t.Optional[Record]:
    """As if it was written when this module was imported."""
    found = drain_record.record(item)
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
    assert drain_record.keep(now, RUN) == {}
    later = time.time() + 1000
    monkeypatch.setattr(drain_record.time, "time", lambda: later)
    now = patched(now, drain_record.keep(now, RUN))
    found = drain_record.record(now)
    assert found and found.run.written == int(later) and drain_record.keep(now, RUN) == {}


@pytest.mark.parametrize("step", [drain_record.keep, drain_record.pause])
def test_a_node_that_someone_uncordoned_during_the_drain_is_cordoned_again(step: t.Callable[..., Data]) -> None:
    """Also if someone else had cordoned it, who now expects that it is in service afterwards."""
    before = node("a", **OPERATOR)
    before["spec"] = {"unschedulable": True}
    now = patched(before, cordon(before))
    now["spec"]["unschedulable"] = False
    now = patched(now, step(now, RUN))
    assert now["spec"]["unschedulable"]
    assert not patched(now, drain_record.uncordon(now))["spec"]["unschedulable"]


def test_the_workloads_of_an_interrupted_run_are_kept() -> None:
    train = Workload("default", "apps/v1", "ReplicaSet", "train", "1", 2)
    web = train._replace(name="web", uid="2", ready=1)
    now = patched(node("a"), drain_record.cordon(node("a"), RUN, [train]))
    now = patched(now, drain_record.cordon(now, RUN, [train._replace(ready=1), web]))
    known = drain_record.record(now)
    assert known and known.workloads == [train, web]


def test_a_foreign_cordon_remains() -> None:
    before = node("a")
    before["spec"] = {"unschedulable": True}
    now = patched(before, cordon(before))
    assert record(now) == Record(False, workloads=[], run=RUN)
    now = patched(now, drain_record.uncordon(now))
    assert now["spec"]["unschedulable"] and drain_record.record(now) is None


@pytest.mark.parametrize("unschedulable", [False, True])
def test_a_node_that_someone_uncordoned_meanwhile_is_cordoned_again(unschedulable: bool) -> None:
    before = node("a", **OPERATOR)
    before["spec"] = {"unschedulable": unschedulable}
    now = patched(before, cordon(before))
    now = patched(now, pause(now))
    now["spec"]["unschedulable"] = False
    now = patched(now, cordon(now))
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


def test_the_mig_manager_pauses_and_restarts_the_operands_itself() -> None:
    managed = node("a", **OPERATOR, **{"nvidia.com/mig.config": "x"})
    managed = patched(managed, cordon(managed))
    assert "labels" not in drain_record.pause(managed, RUN, ())["metadata"]
    assert DEPLOY + "device-plugin" in pause(managed)["metadata"]["labels"]
    validator = plugin("v", app="nvidia-operator-validator")
    assert drain_record.outdated(managed, [validator], by_operator=True) == []
    assert drain_record.outdated(managed, [validator]) == [validator]


def test_the_mig_manager_applies_its_configuration_again_after_other_changes() -> None:
    """A reboot destroys instances, and the state of the configuration would remain success."""
    manager = plugin("m", **MIG_MANAGER)
    assert drain_record.outdated(node("a"), [manager]) == [manager]
    applying = node("a", **{"nvidia.com/mig.config.state": "pending"})
    assert drain_record.outdated(applying, [manager]) == []
    state = {"nvidia.com/mig.config.state": None}
    assert drain_record.unconfirmed([manager]) == {"metadata": {"labels": state}} and drain_record.unconfirmed([]) == {}
    labels = {"nvidia.com/mig.config": "x"}
    new = [plugin("new", **MIG_MANAGER)]
    assert drain_record.unready(node("a", **labels), new, None, [manager], ()) == [
        "a: MIG configuration not applied yet"
    ]
    labels["nvidia.com/mig.config.state"] = "success"
    assert drain_record.unready(node("a", **labels), new, None, [manager], ()) == []


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
        drain_record.record(damaged)
    assert len(str(caught.value)) < 600


def test_a_record_restores_no_labels_of_others() -> None:
    """Whoever may change some labels of a node, and its annotations, must not get other labels changed."""
    now = node("a", **{"example.com/role": drain_record.PAUSED, "nvidia.com/gpu.deploy.dcgm": drain_record.PAUSED})
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
        assert drain_record.held(now, RUN, 3600)
        return
    with pytest.raises(drain_record.Held, match="node a is out of service for another run, process [0-9]+ on"):
        drain_record.held(now, RUN, 3600)


def test_a_run_on_another_controller_can_be_declared_to_have_ended() -> None:
    now = patched(node("a"), drain_record.cordon(node("a"), RUN._replace(place="elsewhere pid:[1]")))
    assert drain_record.held(now, RUN, 0)
    assert drain_record.held(node("a"), RUN, 3600) is None


# --- Pods -------------------------------------------------------------------------------------------------------------


def test_the_operands_that_are_paused() -> None:
    """Any DaemonSet can select nodes by the labels of the operator, such as that of clients."""
    now = patched(node("a", **OPERATOR), cordon(node("a", **OPERATOR)))
    now = patched(now, pause(now))
    client = user("client", owner="DaemonSet", nodeSelector={DEPLOY + "device-plugin": "true"})
    other = user("other", owner="DaemonSet", nodeSelector={DEPLOY + "dcgm": "false"})
    assert drain_record.operands(now, [client, other, user("web")]) == [evictions.pod_of(client)]


@pytest.mark.parametrize("standalone", [{"app.kubernetes.io/name": "nvidia-device-plugin"}, MANIFEST])
def test_a_node_is_ready_with_its_resources_and_a_new_device_plugin(standalone: t.Dict[str, str]) -> None:
    ready = node("a", {"nvidia.com/gpu": "7"})
    wanted, operator = {"nvidia.com/gpu": 7}, {"device-plugin"}
    assert drain_record.unready(ready, [plugin("new")], wanted, [], operator) == []
    assert drain_record.unready(ready, [], wanted, [], operator) == ["a: the device plugin is not ready"]
    assert drain_record.unready(ready, [plugin("new")], {"nvidia.com/gpu": 2}, [], operator) != []
    old, new = plugin("old", **standalone), plugin("new", **standalone)
    plain = node("a", {"nvidia.com/gpu": "7"})
    assert drain_record.outdated(plain, [old, user("web")]) == [old]
    gfd = plugin("nvidia-device-plugin-gpu-feature-discovery-x", **{"app.kubernetes.io/name": "nvidia-device-plugin"})
    assert drain_record.unready(plain, [old, gfd], wanted, [old], ()) == ["a: the device plugin is not ready"]
    assert drain_record.unready(plain, [old, new], wanted, [old], ()) == []


def test_the_validator_of_the_operator_must_be_ready_again() -> None:
    labelled = node("a", {"nvidia.com/gpu": "7"}, **{DEPLOY + "operator-validator": "true"})
    validator = plugin("v", app="nvidia-operator-validator")
    assert drain_record.outdated(labelled, [validator]) == [validator]
    components = drain_record.deployed(labelled, [daemonset("operator-validator")])
    assert drain_record.unready(labelled, [validator], None, [], components) == []
    message = ["a: nvidia-operator-validator is not ready"]
    assert drain_record.unready(labelled, [validator], None, [validator], components) == message


def daemonset(component: str) -> Data:
    return {"spec": {"template": {"spec": {"nodeSelector": {DEPLOY + component: "true"}}}}}


def test_labels_that_an_uninstalled_operator_left_prove_nothing() -> None:
    labels = {DEPLOY + "operator-validator": "true", DEPLOY + "device-plugin": "true", DEPLOY + "dcgm": "false"}
    left = node("a", {"nvidia.com/gpu": "7"}, **labels)
    others = [daemonset("device-plugin"), daemonset("dcgm"), {"spec": {"template": {"spec": {}}}}]
    assert drain_record.deployed(left, []) == set()
    assert drain_record.deployed(left, others) == {"device-plugin"}


def test_the_strategy_of_a_node() -> None:
    assert drain_record.strategy(node("a", **{"nvidia.com/mig.strategy": "mixed"})) == "mixed"
    assert drain_record.strategy(node("a", **{"nvidia.com/gpu.product": "x"})) == "none"
    assert drain_record.strategy(node("a")) == ""


@pytest.mark.parametrize(
    ("labels", "container", "strategy"),
    [
        (MANIFEST, {}, "none"),
        (MANIFEST, {"command": ["nvidia-device-plugin", "--mig-strategy=mixed"]}, "mixed"),
        (
            MANIFEST,
            {"args": ["--fail-on-init-error=false"], "env": [{"name": "MIG_STRATEGY", "value": "single"}]},
            "single",
        ),
        ({"app": "nvidia-device-plugin-daemonset"}, {"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}, "mixed"),
        (MANIFEST, {"env": [{"name": "MIG_STRATEGY", "value": "single"}, {"name": "CONFIG_FILE", "value": "x"}]}, ""),
        (MANIFEST, {"args": ["--config-file=/config"]}, ""),
        ({"app": "web"}, {"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}, ""),
    ],
)
def test_the_strategy_of_a_node_without_feature_discovery(
    labels: t.Dict[str, str], container: Data, strategy: str
) -> None:
    found = plugin("plugin", **labels)
    found["spec"]["containers"][0].update(container)
    assert drain_record.strategy(node("a"), [found]) == strategy
