# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU nodes of managed clusters."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards as layout_boards
from ansible_collections.gpufleet.node.plugins.plugin_utils._managed import gpu_nodes, instance_types
from ansible_collections.gpufleet.node.plugins.plugin_utils._managed.gpu_nodes import ManagedNodes, NodeVariables
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
TYPE = "node.kubernetes.io/instance-type"
EKS = {TYPE: "p4d.24xlarge", "eks.amazonaws.com/nodegroup": "gpu"}
AKS = {TYPE: "Standard_ND96asr_v4", "kubernetes.azure.com/agentpool": "gpu"}
GKE = {
    TYPE: "a2-highgpu-1g",
    "cloud.google.com/gke-nodepool": "gpu",
    "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
}


def layout(**devices: int) -> t.List[Data]:
    return [{"devices": "all", "mig_enabled": bool(devices), "mig_devices": devices}]


SMALL = layout(**{"1g.5gb": 7})


def find(*nodes: Data, **given: t.Any) -> ManagedNodes:
    return gpu_nodes.find_nodes(
        nodes, NodeVariables(**{"selected": False, "strategy": "mixed", "layout": SMALL, **given})
    )


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
    labels = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb", "nvidia.com/device-plugin.config": "any"}
    (problem,) = find(node("a", {"nvidia.com/gpu": "56"}, **GKE, **labels)).problems
    assert "its layout cannot be compared" in problem


def test_boards_of_unknown_types_are_needed() -> None:
    labelled = node("a", **{TYPE: "new.large", "nvidia.com/gpu.present": "true"})
    (problem,) = find(labelled).problems
    assert problem.startswith(
        "node a has GPUs (the label nvidia.com/gpu.present=true) and the unknown instance type new.large: set "
        "gpu_node_boards"
    )
    (problem,) = find(node("a", {"nvidia.com/gpu": "8"})).problems
    assert problem.startswith(
        "node a has GPUs (the resources nvidia.com/gpu: 8) and no instance type: set gpu_node_boards"
    )
    (problem,) = find(node("a", **{TYPE: "new.large"}), selected=True).problems
    assert problem.startswith("node a has the unknown instance type new.large: set gpu_node_boards")
    assert find(node("a"), selected=True, boards=["A100-80GB"]).nodes[0]["boards"] == ["A100-80GB"]


@pytest.mark.parametrize(
    ("labels", "offers"),
    [
        ({}, {"nvidia.com/gpu": "8"}),
        ({}, {"nvidia.com/mig-1g.24gb.shared": "8"}),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, {}),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, {}),
        ({"accelerator": "nvidia"}, {}),
        ({"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}, {}),
        ({"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, {}),
        ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, {}),
        ({"feature.node.kubernetes.io/pci-10de.present": "true"}, {}),
        ({"feature.node.kubernetes.io/pci-0300_10de.present": "true"}, {}),
        ({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, {}),
    ],
)
def test_no_gpu_node_is_left_out_silently(labels: Data, offers: Data) -> None:
    """Beside a known node, whose run would otherwise succeed."""
    found = find(node("known", **EKS), node("b", offers, **{TYPE: "g99.48xlarge", **labels}))
    (sign,) = ["%s=%s" % pair for pair in labels.items()] or ["%s: %s" % pair for pair in offers.items()]
    (problem,) = found.problems
    assert problem.startswith("node b has GPUs (the ") and sign + ") and the unknown instance type g99." in problem


@pytest.mark.parametrize(
    ("labels", "offers"),
    [
        ({}, {"amd.com/gpu": "8", "nvidia.com/hostdev": "4", "nvidia.com/gpu": "0"}),
        ({"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, {}),
        ({"kubernetes.azure.com/accelerator": "amd", "feature.node.kubernetes.io/pci-15b3.present": "true"}, {}),
        ({"karpenter.k8s.aws/instance-gpu-manufacturer": "habana", "nvidia.com/gpu.present": "false"}, {}),
    ],
)
def test_nodes_without_nvidia_gpus(labels: Data, offers: Data) -> None:
    found = find(node("known", **EKS), node("b", offers, **{TYPE: "m99.large", **labels}))
    assert ([each["name"] for each in found.nodes], found.problems) == (["known"], [])


@pytest.mark.parametrize("boards", [[], ["A100-40GB"]])
def test_gpus_without_mig_are_named(boards: t.List[str]) -> None:
    found = find(node("known", **EKS), node("b", **{TYPE: "g6e.48xlarge"}), boards=boards)
    assert found.problems == [
        "node b (g6e.48xlarge) has GPUs of the model L40S, which does not support MIG: set gpu_cluster_selector to "
        "select only other nodes"
    ]


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


def test_the_former_strategy_of_aks_nodes_without_feature_discovery() -> None:
    """The new one applies after the chart has changed, for which no new node pool is needed."""
    offers = {"nvidia.com/mig-1g.5gb": "56"}
    assert find(node("a", offers, **AKS), strategy="single").problems == []
    (problem,) = find(node("a", offers, **AKS), strategy="single", layout=layout(**{"2g.10gb": 3})).problems
    assert "it advertises nvidia.com/mig-1g.5gb: 56, and the layout needs nvidia.com/mig-2g.10gb: 24. AKS" in problem


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
    assert "it advertises no GPUs, so that its layout cannot be compared" in problems("1g.5gb", 0, **{"1g.5gb": 7})[0]
    assert (
        "without MIG, and the layout needs nvidia.com/gpu: 1 with the profile" in problems("", 1, **{"7g.40gb": 1})[0]
    )
    (problem,) = problems("", 2, "2", **{"3g.20gb": 2})
    assert problem.startswith(
        "node a: it advertises nvidia.com/gpu: 1, each device counted once, and the layout needs "
    )
    command = (
        "create a node pool with gcloud container node-pools create POOL --cluster=CLUSTER --machine-type=a2-highgpu-1g"
    )
    accelerator = " --accelerator=type=nvidia-tesla-a100,count=1"
    assert problem.endswith(command + accelerator + ",gpu-partition-size=3g.20gb")
    assert problems("1g.5gb", 7)[0].endswith(command + accelerator)
    for clients in ("many", "0"):
        assert problems("1g.5gb", 14, clients, **{"1g.5gb": 7})[0].startswith(
            "node a: its GPUs are shared, and the node"
        )


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
    def on(allocatable: Data, wanted: object, **others: str) -> ManagedNodes:
        item = node("a", allocatable, **labels, **others)
        item["status"]["nodeInfo"]["osImage"] = image
        return find(item, layout=wanted)

    nothing = (
        words if labels == GKE else "it advertises no GPUs, so that its layout cannot be compared: check the driver"
    )
    assert nothing in on({}, SMALL).problems[0]  # GKE's label shows that it has no MIG
    assert words in on({"nvidia.com/gpu": "8"}, SMALL).problems[0]  # without MIG
    size = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"} if labels == GKE else {}
    assert on({"nvidia.com/gpu": "7" if size else "56"}, SMALL, **size) == ManagedNodes([], ["a"], [], [])
    assert on({"nvidia.com/gpu": "8"}, None) == ManagedNodes([], [], [], ["a"])


def test_auto_mode_has_no_mig() -> None:
    auto = node("a", {"nvidia.com/gpu": "8"}, **EKS, **{"eks.amazonaws.com/compute-type": "auto"})
    assert find(auto).problems == ["node a: EKS Auto Mode does not support MIG: use a managed node group"]
    assert find(auto, layout=layout()).verified == find(auto, layout=None).skipped == ["a"]
    labels = auto["metadata"]["labels"]
    assert (
        "check the driver and the device plugin of EKS Auto" in find(node("a", **labels), layout=layout()).problems[0]
    )
    (problem,) = find(node("a", {"nvidia.com/gpu": "7"}, **labels), layout=layout()).problems
    assert "and the layout needs nvidia.com/gpu: 8. EKS Auto Mode nodes keep" in problem


def test_the_role_reports_layouts_that_the_strategy_does_not_support() -> None:
    mixed = layout(**{"3g.20gb": 1, "1g.5gb": 1})
    assert find(node("a", **EKS), strategy="single", layout=mixed).problems == []


BOTTLEROCKET = {TYPE: "p5.48xlarge"}
FOUR = layout(**{"1g.20gb": 4})  # 32 devices on 8 GPUs


def on_bottlerocket(offers: Data, wanted: object = FOUR, labels: Data = BOTTLEROCKET) -> ManagedNodes:
    item = node("a", offers, **labels)
    item["status"]["nodeInfo"]["osImage"] = "Bottlerocket OS 1.54.0 (aws-k8s-1.34-nvidia)"
    return find(item, layout=wanted)


def test_shared_devices_of_bottlerocket_cannot_be_compared() -> None:
    """Time-slicing renames resources there by default, and no label shows the replicas."""
    (problem,) = on_bottlerocket({"nvidia.com/gpu.shared": "128"}).problems
    assert problem.startswith(
        "node a: its GPUs are shared, and the node does not show by how many pods, so that its layout"
    )
    assert on_bottlerocket({"nvidia.com/gpu": "32"}).verified == ["a"]


@pytest.mark.parametrize("renamed", ["", ".shared"])
def test_replicas_are_read_from_the_labels_of_gpu_feature_discovery(renamed: str) -> None:
    labels = {**BOTTLEROCKET, "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    assert on_bottlerocket({"nvidia.com/gpu" + renamed: "128"}, labels=labels).verified == ["a"]
    (problem,) = on_bottlerocket({"nvidia.com/gpu" + renamed: "224"}, labels=labels).problems
    assert "advertises nvidia.com/gpu: 56, each device counted once, and the layout needs nvidia.com/gpu: 32" in problem
    assert "cannot be compared" in on_bottlerocket({"nvidia.com/gpu": "127"}, labels=labels).problems[0]


def test_replicas_of_someone_elses_configuration_are_read_on_aks() -> None:
    mig = "nvidia.com/mig-1g.5gb"
    labels = {**AKS, mig + ".replicas": "2", "nvidia.com/gpu.replicas": "0", "nvidia.com/device-plugin.config": "any"}
    assert find(node("a", {mig: "112"}, **labels)).problems == []
    (problem,) = find(node("a", {mig: "112"}, **labels), layout=layout(**{"2g.10gb": 3})).problems
    assert problem.startswith(
        "node a: it advertises nvidia.com/mig-1g.5gb: 56, each device counted once, and the layout"
    )


@pytest.mark.parametrize(
    ("instance", "wanted", "row"),
    [
        ("p4d.24xlarge", {"2g.10gb": 3}, '"a100.40gb" = "2g.10gb"'),
        ("p4de.24xlarge", {"1g.10gb": 7}, '"a100.80gb" = "1g.10gb"'),
        ("p5.48xlarge", {"1g.20gb": 4}, '"h100.80gb" = "1g.20gb"'),
        ("p5en.48xlarge", {"2g.35gb": 3}, '"h200.141gb" = "2g.35gb"'),
        ("p6-b200.48xlarge", {"1g.23gb": 7}, '"b200.180gb" = "1g.23gb"'),
        ("p6e-gb200.36xlarge", {"1g.23gb": 7}, '"GPU-MODEL.MEMORYgb" = "1g.23gb"'),
        ("g7e.48xlarge", {"1g.24gb": 4}, '"GPU-MODEL.MEMORYgb" = "1g.24gb"'),
    ],
)
def test_the_profile_of_bottlerocket_is_set_by_gpu_model(instance: str, wanted: t.Dict[str, int], row: str) -> None:
    (problem,) = on_bottlerocket({"nvidia.com/gpu": "8"}, layout(**wanted), {TYPE: instance}).problems
    table = " in the table [settings.kubelet-device-plugins.nvidia.mig.profile] in the user data of its node group"
    assert row + table in problem


def test_instance_types_have_known_models() -> None:
    types = instance_types.known_types()
    assert {model for _count, model in types.values()} - {"L40S"} <= set(layout_boards.names())
    assert all(1 <= count <= 16 for count, _model in types.values())


@pytest.mark.parametrize(
    ("instance", "count", "model"),
    [
        ("a3-highgpu-1g", 1, "H100-80GB"),
        ("a3-highgpu-2g", 2, "H100-80GB"),
        ("a3-highgpu-4g", 4, "H100-80GB"),
        ("a3-highgpu-8g", 8, "H100-80GB"),
        ("a3-megagpu-8g", 8, "H100-80GB"),
        ("a3-ultragpu-8g", 8, "H200-141GB"),
        ("a4-highgpu-8g", 8, "B200-180GB"),
        ("a4x-highgpu-4g", 4, "GB200-186GB"),
        ("g4-standard-384", 8, "RTX-PRO-6000-Blackwell-96GB"),
        ("p5en.48xlarge", 8, "H200-141GB"),
        ("p6-b200.48xlarge", 8, "B200-180GB"),
        ("p6-b300.48xlarge", 8, "B300"),
        ("g6e.48xlarge", 8, "L40S"),
        ("g7e.48xlarge", 8, "RTX-PRO-6000-Blackwell-96GB"),
        ("Standard_NC40ads_H100_v5", 1, "H100-NVL-94GB"),
        ("Standard_NCC40ads_H100_v5", 1, "H100-NVL-94GB"),
        ("Standard_ND96isr_H200_v5", 8, "H200-141GB"),
        ("Standard_ND128isr_NDR_GB200_v6", 4, "GB200-186GB"),
        ("Standard_NC288ds_xl_RTXPRO6000BSE_v6", 2, "RTX-PRO-6000-Blackwell-96GB"),
    ],
)
def test_instance_types_of_2026(instance: str, count: int, model: str) -> None:
    assert instance_types.gpu_models(node("a", **{TYPE: instance})) == [model] * count
