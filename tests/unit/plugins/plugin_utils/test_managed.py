# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU nodes of managed clusters."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils import _boards, _managed
from ansible_collections.gpufleet.node.plugins.plugin_utils._managed import Found, Settings
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes import node

Data = t.Dict[str, t.Any]
TYPE = "node.kubernetes.io/instance-type"
EKS = {TYPE: "p4d.24xlarge", "eks.amazonaws.com/nodegroup": "gpu"}
AKS = {TYPE: "Standard_ND96asr_v4", "kubernetes.azure.com/agentpool": "gpu"}
GKE = {TYPE: "a2-highgpu-1g", "cloud.google.com/gke-nodepool": "gpu"}


def layout(**devices: int) -> t.List[Data]:
    return [{"devices": "all", "mig_enabled": bool(devices), "mig_devices": devices}]


SMALL = layout(**{"1g.5gb": 7})


def find(*nodes: Data, **settings: t.Any) -> Found:
    return _managed.find(nodes, Settings(**{"selected": False, "strategy": "mixed", "layout": SMALL, **settings}))


def test_the_operator_owns_mig_on_eks() -> None:
    found = find(node("b", **EKS), node("cpu", **{TYPE: "m5.large"}), node("a", **EKS))
    assert [(each["name"], each["owner"], each["boards"]) for each in found.nodes] == [
        ("a", "operator", ["A100-40GB"] * 8),
        ("b", "operator", ["A100-40GB"] * 8),
    ]
    assert (found.verified, found.problems) == ([], [])
    assert find(node("a", **EKS), layout=None).nodes[0]["owner"] == "host"


def test_shared_gpus_of_nodes_that_cannot_be_changed() -> None:
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}}
    offers = {"nvidia.com/mig-1g.5gb": "56"}
    assert find(node("a", offers, **AKS), sharing=sharing).problems == []  # the role will share them
    assert find(node("a", offers, **AKS, **{"nvidia.com/device-plugin.config": "any"})).problems == []
    (problem,) = find(node("a", {"nvidia.com/mig-1g.5gb": "8"}, **GKE), sharing=sharing).problems
    assert "gpu_cluster_sharing needs a chart" in problem
    (problem,) = find(node("a", offers, **GKE, **{"nvidia.com/device-plugin.config": "any"})).problems
    assert "its layout cannot be compared" in problem


def test_boards_of_unknown_types_are_needed() -> None:
    labelled = node("a", **{TYPE: "new.large", "nvidia.com/gpu.present": "true"})
    (problem,) = find(labelled).problems
    assert problem.startswith("node a has the unknown instance type new.large: set gpu_node_boards")
    assert find(node("a"), selected=True, boards=["A100-80GB"]).nodes[0]["boards"] == ["A100-80GB"]


def test_no_nodes() -> None:
    assert "set gpu_cluster_selector and gpu_node_boards" in find(node("cpu")).problems[0]
    assert find(selected=True).problems == ["no node matches gpu_cluster_selector"]


def test_aks_nodes_that_match_are_not_changed() -> None:
    found = find(node("a", {"nvidia.com/mig-1g.5gb": "56"}, **AKS))
    assert (found.nodes[0]["owner"], found.problems) == ("host", [])
    assert find(node("a", **AKS)).problems == []  # before its device plugin runs


@pytest.mark.parametrize(
    ("devices", "option"),
    [
        ({"2g.10gb": 3}, " --gpu-instance-profile MIG2g"),
        ({"3g.20gb": 2}, " --gpu-instance-profile MIG3g"),
        ({"7g.40gb": 1}, " --gpu-instance-profile MIG7g"),
        ({}, ""),
    ],
)
def test_the_node_pool_of_aks(devices: t.Dict[str, int], option: str) -> None:
    (problem,) = find(node("a", {"nvidia.com/mig-1g.5gb": "56"}, **AKS), layout=layout(**devices)).problems
    assert problem.startswith("node a: it advertises nvidia.com/mig-1g.5gb: 56, and the layout needs nvidia.com/")
    assert problem.endswith("--name POOL --node-count COUNT --node-vm-size Standard_ND96asr_v4" + option)


def test_the_profile_of_aks_nodes_is_compared_too() -> None:
    """Under the strategy single, three of its profiles, and GPUs without MIG, have the same number of devices."""
    offers = {"nvidia.com/gpu": "8"}
    labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-7g.40gb-SHARED"}

    def problems(**devices: int) -> t.List[str]:
        return find(node("a", offers, **AKS, **labels), strategy="single", layout=layout(**devices)).problems

    assert problems(**{"7g.40gb": 1}) == []
    (problem,) = problems(**{"4g.20gb": 1})
    assert problem.startswith(
        "node a: it advertises nvidia.com/gpu: 8 with the profile 7g.40gb, and the layout needs nvidia.com/gpu: 8 with the "
        "profile 4g.20gb. AKS"
    )
    assert "and the layout needs nvidia.com/gpu: 8 without MIG. AKS" in problems()[0]
    labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-40GB"
    assert "it advertises nvidia.com/gpu: 8 without MIG, and" in problems(**{"7g.40gb": 1})[0]
    assert problems() == []


@pytest.mark.parametrize("now", ["single", "mixed", None])
@pytest.mark.parametrize("wanted", ["single", "mixed"])
def test_the_strategy_of_aks_nodes_can_be_changed(now: t.Optional[str], wanted: str) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB" + ("-MIG-1g.5gb" if now == "single" else "")}
    offers = {"single": {"nvidia.com/gpu": "56"}, "mixed": {"nvidia.com/mig-1g.5gb": "56"}}
    if now:  # otherwise the strategy is none
        labels["nvidia.com/mig.strategy"] = now
    item = node("a", offers.get(now or "", {"nvidia.com/gpu": "8"}), **AKS, **labels)
    assert find(item, strategy=wanted).problems == []


def test_layouts_that_the_strategy_none_hides() -> None:
    (problem,) = find(node("a", {"nvidia.com/gpu": "8"}, **AKS), strategy="none").problems
    assert problem == (
        "node a: with the strategy none, pods get whole GPUs, although MIG is enabled: use single or mixed"
    )
    assert find(node("a", {"nvidia.com/gpu": "8"}, **AKS), strategy="none", layout=layout()).problems == []


@pytest.mark.parametrize(
    "wanted",
    [
        layout(**{"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}),
        layout(**{"1g.5gb": 6}),
        layout(**{"1g.10gb": 4}),
        layout(**{"1c.3g.20gb": 6}),
        layout(**{"1g.5gb+me": 1}),
        [*SMALL, {"devices": [0], "mig_enabled": False}],
        [{**SMALL[0], "devices": [0]}],
        [{"devices": "all", "mig_enabled": True, "mig_devices": {}}],
    ],
)
def test_layouts_that_no_node_pool_has(wanted: t.List[Data]) -> None:
    for labels, name in ((AKS, "AKS"), ({**GKE, TYPE: "a2-highgpu-2g"}, "GKE")):
        if name == "AKS" or wanted != layout(**{"1g.10gb": 4}):
            (problem,) = find(node("a", **labels), strategy="single", layout=wanted).problems
            assert problem.startswith("node a: %s offers only layouts in which all GPUs have the same instances" % name)


def test_the_partition_size_and_the_sharing_of_gke() -> None:
    def problems(size: str, offered: int, clients: t.Optional[str] = None, **devices: int) -> t.List[str]:
        labels = {"cloud.google.com/gke-gpu-partition-size": size} if size else {}
        if clients:
            labels["cloud.google.com/gke-max-shared-clients-per-gpu"] = clients
        return find(node("a", {"nvidia.com/gpu": str(offered)}, **GKE, **labels), layout=layout(**devices)).problems

    assert problems("1g.5gb", 7, **{"1g.5gb": 7}) == []
    assert problems("1g.5gb", 14, "2", **{"1g.5gb": 7}) == []
    assert problems("", 1) == problems("", 2, "2") == []
    assert (
        "without MIG, and the layout needs nvidia.com/gpu: 1 with the profile" in problems("", 1, **{"7g.40gb": 1})[0]
    )
    (problem,) = problems("", 2, "2", **{"3g.20gb": 2})
    assert problem.endswith("create a node pool with --accelerator=...,gpu-partition-size=3g.20gb")
    assert problems("1g.5gb", 7)[0].endswith("create a node pool without gpu-partition-size")


@pytest.mark.parametrize(
    ("labels", "image", "words"),
    [
        (
            GKE,
            "Container-Optimized OS",
            "GKE nodes keep the MIG layout with which they were created: create a node pool",
        ),
        ({TYPE: "p4d.24xlarge"}, "Bottlerocket OS 1.50.0", "Bottlerocket nodes keep the MIG layout"),
    ],
)
def test_platforms_that_are_only_verified(labels: Data, image: str, words: str) -> None:
    def on(allocatable: Data, wanted: object, **others: str) -> Found:
        item = node("a", allocatable, **labels, **others)
        item["status"]["nodeInfo"]["osImage"] = image
        return find(item, layout=wanted)

    assert words in on({}, SMALL).problems[0]
    assert words in on({"nvidia.com/gpu": "8"}, SMALL).problems[0]  # without MIG
    size = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"} if labels == GKE else {}
    assert on({"nvidia.com/gpu": "7" if size else "56"}, SMALL, **size) == Found([], ["a"], [], [])
    assert on({"nvidia.com/gpu": "8"}, None) == Found([], [], [], ["a"])


def test_auto_mode_has_no_mig() -> None:
    auto = node("a", {"nvidia.com/gpu": "8"}, **EKS, **{"eks.amazonaws.com/compute-type": "auto"})
    assert find(auto).problems == ["node a: EKS Auto Mode does not support MIG: use a managed node group"]
    assert find(auto, layout=layout()).verified == find(auto, layout=None).skipped == ["a"]
    assert "EKS Auto Mode nodes keep" in find(node("a", **auto["metadata"]["labels"]), layout=layout()).problems[0]


def test_the_role_reports_layouts_that_the_strategy_does_not_support() -> None:
    mixed = layout(**{"3g.20gb": 1, "1g.5gb": 1})
    assert find(node("a", **EKS), strategy="single", layout=mixed).problems == []


def test_instance_types_have_known_boards() -> None:
    types = yaml.safe_load(_managed._TYPES.read_text(encoding="utf-8"))
    assert {board for _count, board in types.values()} <= set(_boards.names())
    assert all(1 <= count <= 16 for count, _board in types.values())
