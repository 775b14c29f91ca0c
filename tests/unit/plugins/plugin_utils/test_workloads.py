# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controllers of evicted pods."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils import _workloads
from ansible_collections.gpufleet.node.plugins.plugin_utils._workloads import Workload
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes import pod, waiting

Data = t.Dict[str, t.Any]
TRAIN = Workload("gpu-operator", "ReplicaSet train", "train-uid", 2)


def owned(item: Data, owner: str = "train") -> Data:
    item["metadata"]["ownerReferences"] = [
        {"kind": "Other", "name": "x", "uid": "x"},
        {"kind": "ReplicaSet", "name": owner, "uid": owner + "-uid", "controller": True},
    ]
    return item


def ended(item: Data, phase: str = "Succeeded") -> Data:
    item["status"] = {"phase": phase}
    return item


def unready(*pods: Data) -> t.List[str]:
    return _workloads.unready([TRAIN], pods)


def test_how_many_pods_were_ready() -> None:
    here, there = owned(pod("a", "1")), owned(pod("b", "2"))
    bare, other = pod("c", "1"), owned(pod("d", "1", ready=False), "broken")
    evicted = [here, bare, other]
    assert _workloads.namespaces([bare]) == [] and _workloads.namespaces(evicted) == ["gpu-operator"]
    assert _workloads.of(evicted, [*evicted, there]) == [TRAIN]


def test_as_many_pods_must_be_ready_again() -> None:
    first, second = owned(pod("a")), owned(pod("b"))
    assert unready(first, second, owned(pod("c"), "web")) == []
    (reason,) = unready(first, owned(waiting("b", "CrashLoopBackOff", last=1)))
    assert reason == (
        "ReplicaSet train in namespace gpu-operator has 1 ready pods, and had 2 before: container main of pod b ended with "
        "status 1"
    )
    assert unready(first, owned(pod("b", ready=False)))[0].endswith("they are starting")


def test_fewer_pods_are_enough_if_no_more_are_needed() -> None:
    assert unready() == unready(owned(pod("a"))) == []
    assert unready(owned(pod("a")), ended(owned(pod("b")))) == []  # a job
    terminating = owned(pod("b", ready=False))
    terminating["metadata"]["deletionTimestamp"] = "now"
    assert unready(owned(pod("a")), terminating) == []
