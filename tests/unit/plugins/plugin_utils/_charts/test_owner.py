# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other owners of MIG, and other device plugins."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import owner as charts_owner
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import CHARTS
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import daemonset, node

Data = t.Dict[str, t.Any]
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
STATE = "nvidia.com/mig.config.state"
MIG_PAUSE = {PLUGIN: "paused-for-mig-change", "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}


@pytest.mark.parametrize(
    ("labels", "owner", "words"),
    [
        ({}, "host", []),
        ({PLUGIN: "true"}, "host", []),
        ({PLUGIN: "false"}, "host", []),
        (MIG_PAUSE, "host", ["the MIG manager has paused components"]),
        (MIG_PAUSE, "operator", ["the MIG manager has paused components"]),
        ({**MIG_PAUSE, STATE: "pending"}, "host", ["the MIG manager has paused components"]),
        ({**MIG_PAUSE, STATE: "pending"}, "operator", []),
        (
            {PLUGIN: "paused-for-driver-upgrade", STATE: "pending"},
            "operator",
            ["the operator's driver manager has paused"],
        ),
        (
            {PLUGIN: "paused-by-me"},
            "host",
            ["an unknown client has paused components of the GPU operator on node a: " + PLUGIN],
        ),
        ({"nvidia.com/gpu.deploy.operands": "false"}, "host", ["gpu.deploy.operands=false of node a disables"]),
        ({"nvidia.com/gpu.deploy.mig-manager": "false"}, "host", []),
        ({"nvidia.com/gpu.deploy.mig-manager": "false"}, "operator", ["disables the MIG manager"]),
        (
            {"kubernetes.azure.com/dcgm-exporter": "enabled"},
            "host",
            ["has the label kubernetes.azure.com/dcgm-exporter"],
        ),
    ],
)
def test_labels_of_others(labels: t.Dict[str, str], owner: str, words: t.Sequence[str]) -> None:
    found = charts_owner.label_problems(node("a", **labels), owner)
    assert len(found) == len(words)
    assert all(word in problem for word, problem in zip(words, found))


def test_the_remedy_restores_every_paused_component() -> None:
    (problem,) = charts_owner.label_problems(node("a", **MIG_PAUSE), "host")
    assert problem.endswith(
        "kubectl label node a --overwrite nvidia.com/gpu.deploy.dcgm=true nvidia.com/gpu.deploy.device-plugin=true"
    )


STANDALONE = {"app.kubernetes.io/name": "nvidia-device-plugin"}
MANIFEST = {"name": "nvidia-device-plugin-ds"}  # NVIDIA's, which the documentation of AKS has in another namespace
HAMI = {"app.kubernetes.io/component": "hami-device-plugin", "app.kubernetes.io/name": "hami"}
GATES = [{"name": "FEATURE_GATES", "value": "A=true,DynamicMIG=true"}]


def conflicts(role: str, daemonsets: t.Sequence[Data], policies: t.Sequence[Data]) -> t.List[str]:
    own = CHARTS[role].conflicts(("ns", "release"), daemonsets, policies)
    return [*charts_owner.common_conflicts(role, daemonsets), *own]


@pytest.mark.parametrize(
    ("role", "daemonsets", "words"),
    [
        ("gpu_operator", [daemonset("plugin", **STANDALONE)], ["another device plugin, somewhere/plugin"]),
        ("gpu_operator", [daemonset("plugin", **MANIFEST)], ["another device plugin"]),
        ("device_plugin", [daemonset("plugin", **MANIFEST)], ["kubectl delete daemonset --namespace somewhere plugin"]),
        ("gpu_operator", [daemonset("hami-device-plugin", **HAMI)], ["HAMi, somewhere/hami-device-plugin, and two"]),
        ("device_plugin", [daemonset("a", release=("ns", "hami"), **HAMI)], ["do not use the role device_plugin"]),
        ("gpu_operator", [daemonset("x-mps-control-daemon", **STANDALONE)], []),
        ("gpu_operator", [daemonset("nvidia-device-plugin-daemonset", app="nvidia-device-plugin-daemonset")], []),
        ("device_plugin", [daemonset("plugin", release=("ns", "release"), **STANDALONE)], []),
        ("device_plugin", [daemonset("plugin", release=("ns", "other"), **STANDALONE)], ["set device_plugin_release"]),
        ("gpu_operator", [daemonset("dra", env=GATES)], ["DynamicMIG, and destroys"]),
        ("device_plugin", [daemonset("dra", env=GATES)], ["DynamicMIG, and destroys"]),
        ("gpu_operator", [daemonset("dra", env=[{"name": "FEATURE_GATES", "value": "DynamicMIG=false"}])], []),
    ],
)
def test_daemonsets_of_others(role: str, daemonsets: t.Any, words: t.Sequence[str]) -> None:
    found = conflicts(role, daemonsets, [])
    assert len(found) == len(words)
    assert all(word in problem for word, problem in zip(words, found))


@pytest.mark.parametrize(
    ("role", "release", "refused"),
    [
        ("gpu_operator", ("ns", "release"), False),
        ("gpu_operator", (), False),
        ("gpu_operator", ("ns", "gpu-operator-1668"), True),
        ("device_plugin", ("ns", "release"), True),
        ("device_plugin", (), True),
    ],
)
def test_a_gpu_operator_in_the_cluster(role: str, release: t.Sequence[str], refused: bool) -> None:
    policy = {"metadata": daemonset("cluster-policy", release=release)["metadata"]}
    assert bool(conflicts(role, [], [policy])) is refused


def test_components_that_an_interrupted_run_of_this_collection_paused() -> None:
    paused = node("a", **{"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"})
    paused["metadata"]["annotations"] = {
        record.RECORD: record.Record(True, labels={"nvidia.com/gpu.deploy.dcgm": "true"}).text()
    }
    assert charts_owner.label_problems(paused, "host") == []
    paused["metadata"]["annotations"] = {record.RECORD: "damaged"}
    (problem,) = charts_owner.label_problems(paused, "host")
    assert "is damaged" in problem
