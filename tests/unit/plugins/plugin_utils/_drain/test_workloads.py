# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controllers of evicted pods."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import workloads
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.workloads import Workload
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import pod, waiting

Data = t.Dict[str, t.Any]
TRAIN = Workload("gpu-operator", "apps/v1", "ReplicaSet", "train", "train-uid")
READY = TRAIN._replace(ready=2)


def owned(item: Data, kind: str = "ReplicaSet", name: str = "train") -> Data:
    other = {"apiVersion": "v1", "kind": "ReplicaSet", "name": "x", "uid": "x"}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name + "-uid", "controller": True}
    item["metadata"]["ownerReferences"] = [other, owner]
    return item


def controller(ready: int, replicas: int = 2, uid: str = "train-uid") -> t.List[Data]:
    return [
        {
            "kind": "ReplicaSet",
            "metadata": {"uid": uid},
            "spec": {"replicas": replicas},
            "status": {"readyReplicas": ready},
        }
    ]


def job(ready: int, active: int) -> t.List[Data]:
    return [{"kind": "Job", "metadata": {"uid": "train-uid"}, "spec": {}, "status": {"ready": ready, "active": active}}]


def test_the_controllers_of_pods() -> None:
    custom = owned(pod("d"), "PyTorchJob", "custom")
    assert workloads.workloads_of([owned(pod("a")), owned(pod("b")), pod("bare"), custom]) == [TRAIN]
    ended = owned(pod("e"))
    ended["status"] = {"phase": "Failed", "reason": "Evicted"}
    assert workloads.workloads_of([ended]) == []  # the controller has replaced it
    assert workloads.workloads_of([owned(pod("a"))], [READY]) == []  # recorded when it had all its pods
    assert workloads.objects_to_read([TRAIN]) == [
        {"api_version": "apps/v1", "kind": "ReplicaSet", "name": "train", "namespace": "gpu-operator"}
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", name) for name in ("web/status", "../pods/evil:8088/proxy/x?a=", "a?watch=1", "", None, "a" * 254)),
        *(("apiVersion", version) for version in ("evil/v9", "batch.volcano.sh/v1alpha1", "../v1", None)),
    ],
)
def test_an_owner_that_is_no_known_controller_is_ignored(field: str, value: t.Optional[str]) -> None:
    """Whoever may create a pod can write any: it would become the path of a request, or one that is not allowed."""
    forged = owned(pod("a"))
    forged["metadata"]["ownerReferences"][1][field] = value
    assert workloads.workloads_of([forged, owned(pod("b"))]) == [TRAIN]


def test_only_what_was_ready_must_be_ready_again() -> None:
    broken, gone, new = (TRAIN._replace(name=name) for name in ("broken", "gone", "new"))
    found = [controller(2), controller(0), [], controller(2, uid="other")]
    assert workloads.counted([TRAIN, broken, gone, new], found) == [READY]


def test_as_many_pods_must_be_ready_again() -> None:
    assert workloads.unready([READY], [controller(2)]) == []
    assert workloads.unready([READY], [controller(1)]) == [TRAIN._replace(ready=1)]
    assert workloads.unready([READY], [job(0, 1)]) == [TRAIN]


def test_fewer_pods_are_enough_if_no_more_are_needed() -> None:
    for found in (
        controller(1, replicas=1),
        controller(0, replicas=0),
        [],
        controller(0, uid="new"),
        job(0, 0),
        job(1, 1),
    ):
        assert workloads.unready([READY], [found]) == []


def test_workloads_that_lack_pods_already() -> None:
    """Each run would take another of their pods."""
    found = "ReplicaSet train in namespace gpu-operator has 1 of 2 pods ready"
    assert workloads.degraded([TRAIN], [controller(1)]) == [found]
    assert workloads.degraded([TRAIN], [controller(2)]) == workloads.degraded([TRAIN], [[]]) == []
    assert workloads.degraded([TRAIN._replace(kind="Job")], [job(0, 1)]) == []


def test_why_pods_do_not_run() -> None:
    crashed, other = owned(waiting("b", "CrashLoopBackOff", last=1)), owned(waiting("c", "X"), name="other")
    assert workloads.pod_problems(TRAIN, [pod("a"), crashed, other]) == ["container main of pod b ended with status 1"]
