# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import pods

MIG = "nvidia.com/mig-1g.10gb"


def spec(count: int = 1, **others: t.Any) -> t.Dict[str, t.Any]:
    return {"containers": [{"name": "a", "resources": {"limits": {MIG: str(count), "cpu": "1"}}}], **others}


def item(kind: str, name: str, spec: t.Any, **others: t.Any) -> t.Dict[str, t.Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec, **others}


def template(count: int = 1, **others: t.Any) -> t.Dict[str, t.Any]:
    return {"template": {"spec": spec(count)}, **others}


def read(tmp_path: Path, *items: t.Any) -> pods.Pods:
    path = tmp_path / "pods.yml"
    path.write_text("\n---\n".join(map(json.dumps, items)))
    return pods.read(str(path))


def lines(found: pods.Pods, before: t.Dict[str, int], after: t.Dict[str, int]) -> t.List[str]:
    """With one instance for each number, by node."""
    nodes = [{name: Counter({MIG: count}) for name, count in each.items()} for each in (before, after)]
    return pods.report(found, *nodes)


def test_pods_on_other_nodes_need_no_room_on_these(tmp_path: Path) -> None:
    """The file has the pods of the whole cluster, and the inventory may be a part of it."""
    found = read(tmp_path, item("Pod", "a", spec(nodeName="one")), item("Pod", "b", spec(nodeName="other")))
    assert lines(found, {"one.example.com": 2}, {"one.example.com": 1}) == [
        "all 1 pods that request GPUs or MIG devices have a node",
        "not checked, because their nodes are not in the rehearsal: default/b on other",
    ]


def test_the_host_name_of_a_node_selector_may_be_short(tmp_path: Path) -> None:
    """As the node's name may be: the inventory may have the full name of the same node."""
    found = read(tmp_path, item("Pod", "a", spec(nodeSelector={pods.HOSTNAME: "gpu-1"})))
    assert lines(found, {"gpu-1.example.com": 1}, {"gpu-1.example.com": 1}) == [
        "all 1 pods that request GPUs or MIG devices have a node"
    ]


def test_pods_that_run_and_have_room_only_on_another_node(tmp_path: Path) -> None:
    """They take no room from pods that run there."""
    found = read(tmp_path, item("Pod", "a", spec(2, nodeName="two")), item("Pod", "b", spec(nodeName="one")))
    assert lines(found, {"one": 3, "two": 2}, {"one": 3, "two": 0}) == [
        "all 2 pods that request GPUs or MIG devices have a node",
        "have no room on the node where they run, but on another: default/a on two",
    ]
    assert lines(found, {"one": 2, "two": 2}, {"one": 2, "two": 0}) == [
        "default/a (nvidia.com/mig-1g.10gb: 2): no room is left beside the other pods"
    ]


def test_pods_of_controllers_and_lists(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        item("Deployment", "d", template(replicas=3)),
        item("StatefulSet", "s", template(replicas=None)),
        {"kind": "List", "items": []},
        {"kind": "List", "items": None},
        item("CronJob", "c", {"jobTemplate": {"spec": template(2, parallelism=4)}}),
        item("ConfigMap", "m", None),
        {"kind": "PodList", "items": [{"metadata": {"name": "p", "namespace": "n"}, "spec": spec(nodeName="one")}]},
        item("Pod", "done", spec(), status={"phase": "Succeeded"}),
        item("Pod", "without", {"containers": [{"name": "a"}]}),
    )
    assert [(each.name, each.count, each.resources[MIG], each.current) for each in found.requested] == [
        ("Deployment default/d", 3, 1, ""),
        ("StatefulSet default/s", 1, 1, ""),
        ("CronJob default/c", 4, 2, ""),
        ("n/p", 1, 1, "one"),
    ]


def test_pods_that_no_node_could_run(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        item("Pod", "small", spec()),
        item("Pod", "large", spec(3)),
        item("Pod", "bound", spec(nodeSelector={pods.HOSTNAME: "two"})),
    )
    assert lines(found, {"one": 4, "two": 1}, {"one": 2, "two": 0}) == [
        "default/large (nvidia.com/mig-1g.10gb: 3): no node advertises that",
        "default/bound (nvidia.com/mig-1g.10gb: 1, on node two): no node advertises that",
    ]
    assert lines(found, {"one": 4, "two": 1}, {"one": 4, "two": 1}) == [
        "all 3 pods that request GPUs or MIG devices have a node"
    ]


def test_pods_for_which_no_room_is_left(tmp_path: Path) -> None:
    """Pods that run keep their places; what was too much before the change is marked."""
    found = read(tmp_path, item("Deployment", "d", template(replicas=3)), item("Pod", "runs", spec(nodeName="one")))
    assert lines(found, {"one": 4}, {"one": 2}) == [
        "Deployment default/d (nvidia.com/mig-1g.10gb: 1), 2 of 3 pods: no room is left beside the other pods"
    ]
    assert lines(found, {"one": 2}, {"one": 2})[0].endswith("beside the other pods, as before the change")


def test_what_is_not_checked_is_listed(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        item("Pod", "dra", {"resourceClaims": [{"name": "gpu"}]}),
        item("DaemonSet", "monitor", template()),
        item("PyTorchJob", "train", {"pytorchReplicaSpecs": {"Worker": template()}}),
        item("pod", "lower", spec()),
        item("MPIJob", "without", {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}),
        item("Node", "one", {}, status={"capacity": {MIG: "7"}}),
    )
    assert lines(found, {}, {})[1:] == [
        "not checked, because of their resource claims: default/dra",
        "not checked, one pod for each node: DaemonSet default/monitor",
        "not checked, because the rehearsal does not know how many pods these kinds have: "
        "PyTorchJob default/train, pod default/lower",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " has no objects"),
        ("{", " cannot be read"),
        ("[1]", ", object 1 .* is no object of Kubernetes"),
        ('{"kind": "ConfigMap"}\n---\n{"kind": "Deployment"}', ", object 2 .*Deployment"),
        ('{"kind": "PodList", "items": [{}, 3]}', ", object 2 .3. is"),
        ('{"kind": "List", "items": {"spec": 3}}', ", object 1 .*spec"),
        ("{kind: Kustomization, resources: [a.yml]}", ", object 1 .*: give the output of kubectl kustomize"),
        ('{"kind": "Job", "spec": 3}', ", object 1 .*Job"),
        ('{"kind": "Job", "spec": {"parallelism": -3}}', ", object 1 .*: parallelism is -3: give a number"),
        ('{"kind": "Job", "spec": {"parallelism": "²"}}', ", object 1 .*: parallelism is .* give a number"),
        (
            "{kind: List, items: [&a {kind: List, items: [{kind: Pod}]}, *a]}",
            " cannot be read: .* a list of objects twice",
        ),
    ],
)
def test_files_without_pods(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pods.yml"
    path.write_text(text)
    with pytest.raises(Refusal, match="rehearse_pods: %s%s" % (path, message)):
        pods.read(str(path))
