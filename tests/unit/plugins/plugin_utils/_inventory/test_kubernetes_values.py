# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names, labels, taints and tolerations of the Kubernetes API."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import kubernetes_values


@pytest.mark.parametrize(
    "name, value",
    [
        ("gpu_operator_namespace", "gpu-operator"),
        ("device_plugin_release", "a" * 53),
        ("device_plugin_runtime_class", ""),
        ("gpu_cluster_node_name", "gpu-1.example.com"),
        ("gpu_operator_tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        ("gpu_operator_tolerations", [{"key": "a", "value": "b"}, {"operator": "Exists"}]),
        ("gpu_operator_tolerations", [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 60}]),
        ("gpu_operator_version", "Not A Name"),
    ],
)
def test_accepted(name: str, value: object) -> None:
    assert kubernetes_values.kubernetes_value_problems(name, value) == []


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("gpu_operator_namespace", "GPU", 'gpu_operator_namespace is "GPU": give lowercase letters'),
        ("gpu_operator_namespace", "a" * 64, "at most 63 characters"),
        ("gpu_operator_namespace", "gpu.operator", "a namespace must not contain dots"),
        ("device_plugin_release", "a" * 54, "at most 53 characters"),
        ("device_plugin_runtime_class", "nvidia_runtime", "give lowercase letters"),
        ("rke2_node_name", "gpu 1", "give lowercase letters"),
    ],
)
def test_names(name: str, value: str, words: str) -> None:
    (problem,) = kubernetes_values.kubernetes_value_problems(name, value)
    assert words in problem


@pytest.mark.parametrize(
    "toleration, words",
    [
        ("nvidia.com/gpu", "give a mapping"),
        ({"name": "a"}, 'unknown key "name": use key'),
        ({"key": 7}, "key is 7: give a string"),
        ({"key": "a", "tolerationSeconds": True}, "tolerationSeconds is true: give a number"),
        ({"key": "a", "operator": "exists"}, 'operator is "exists": use Equal or Exists'),
        ({"key": "a", "effect": "NoRun"}, 'effect is "NoRun": use one of NoSchedule'),
        ({"key": "a", "operator": "Exists", "value": "b"}, "remove the value"),
        ({"value": "b"}, "give a key"),
        ({"key": "a b"}, "Kubernetes does not accept its key"),
        ({"key": "a", "value": "b c"}, "Kubernetes does not accept its key or value"),
        ({"key": "a", "tolerationSeconds": 60}, "needs the effect NoExecute"),
    ],
)
def test_tolerations(toleration: t.Any, words: str) -> None:
    (problem,) = kubernetes_values.kubernetes_value_problems("x_tolerations", [{"key": "good"}, toleration])
    assert problem.startswith("x_tolerations, entry 2: ")
    assert words in problem


def test_taints() -> None:
    good = ["nvidia.com/gpu:NoSchedule", "nvidia.com/gpu=present:NoExecute", "a=:PreferNoSchedule"]
    bad = [
        "nvidia.com/gpu",
        "a=b:noschedule",
        ":NoSchedule",
        "-a=b:NoSchedule",
        "a=b c:NoSchedule",
        "A/b/c=d:NoExecute",
        7,
    ]
    assert kubernetes_values.taint_problems("x", good) == []
    for taint in bad:
        (problem,) = kubernetes_values.taint_problems("x", [taint])
        assert repr(str(taint)) in problem
    (problem,) = kubernetes_values.taint_problems("x", ["a=b:NoSchedule", "a:NoExecute", "a=c:NoSchedule"])
    assert "'a=c:NoSchedule', but an earlier entry has the same key and effect" in problem


def test_labels() -> None:
    good = [
        "a=b",
        "example.com/gpu=a100",
        "a=",
        "topology.kubernetes.io/zone=z1",
        "node.kubernetes.io/pool=gpu",
        "kubernetes.io/hostname=n",
    ]
    assert kubernetes_values.label_problems("x", good) == []
    for label in ["a", "=b", "a=b c", "a" * 64 + "=b", "a=" + "b" * 64]:
        (problem,) = kubernetes_values.label_problems("x", [label])
        assert "give key=value" in problem
    for label in ["node-role.kubernetes.io/worker=true", "kubernetes.io/role=gpu", "x.k8s.io/a=b"]:
        (problem,) = kubernetes_values.label_problems("x", [label])
        assert "the kubelet does not start" in problem
