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
    assert problem.endswith("--name POOL --node-vm-size Standard_ND96asr_v4" + option)


@pytest.mark.parametrize(
    "wanted",
    [
        layout(**{"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}),
        layout(**{"1g.5gb": 6}),
        layout(**{"1g.10gb": 4}),
        [*SMALL, {"devices": [0], "mig_enabled": False}],
        [{**SMALL[0], "devices": [0]}],
    ],
)
def test_layouts_that_aks_does_not_offer(wanted: t.List[Data]) -> None:
    (problem,) = find(node("a", **AKS), layout=wanted).problems
    assert problem.startswith("node a: AKS offers only layouts in which all GPUs have the same instances")


@pytest.mark.parametrize(
    ("labels", "image", "words"),
    [
        (
            GKE,
            "Container-Optimized OS",
            "GKE nodes keep the MIG layout with which they were created: create a node pool",
        ),
        ({TYPE: "p4d.24xlarge"}, "Bottlerocket OS 1.50.0", "Bottlerocket nodes keep the MIG layout"),
        ({**EKS, "eks.amazonaws.com/compute-type": "auto"}, "Bottlerocket (EKS Auto)", "EKS Auto Mode nodes keep"),
    ],
)
def test_platforms_that_are_only_verified(labels: Data, image: str, words: str) -> None:
    def on(allocatable: Data, wanted: object) -> Found:
        item = node("a", allocatable, **labels)
        item["status"]["nodeInfo"]["osImage"] = image
        return find(item, layout=wanted)

    assert words in on({}, SMALL).problems[0]
    assert words in on({"nvidia.com/gpu": "8"}, SMALL).problems[0]  # without MIG
    count = "7" if labels == GKE else "56"
    resource = "mig-1g.5gb" if "Auto" in image else "gpu"  # the others use the strategy single
    assert on({"nvidia.com/" + resource: count}, SMALL) == Found([], ["a"], [])
    assert on({"nvidia.com/gpu": "8"}, None) == Found([], ["a"], [])


def test_layouts_that_the_strategy_does_not_support() -> None:
    mixed = layout(**{"3g.20gb": 1, "1g.5gb": 1})
    assert "the strategy single needs" in find(node("a", **GKE), strategy="single", layout=mixed).problems[0]
    assert find(node("a", **EKS), strategy="single", layout=mixed).problems == []  # the operator's role reports it


def test_instance_types_have_known_boards() -> None:
    types = yaml.safe_load(_managed._TYPES.read_text(encoding="utf-8"))
    assert {board for _count, board in types.values()} <= set(_boards.names())
    assert all(1 <= count <= 16 for count, _board in types.values())
