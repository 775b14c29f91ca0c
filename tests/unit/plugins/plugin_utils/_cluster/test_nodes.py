# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes of hosts, and the resources that they should advertise."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu, instance

SEVEN = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
UNEQUAL = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}}]
SPLIT = [
    {
        "devices": "all",
        "mig_enabled": True,
        "mig_devices": [{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb", "2c.3g.40gb"]}],
    }
]
OFF = [{"devices": "all", "mig_enabled": False}]
NODES = ["gpu1", "gpu2.example.com"]


@pytest.mark.parametrize(
    ("host", "node"),
    [
        (Host("gpu1"), "gpu1"),
        (Host("dgx", node_name="GPU1"), "gpu1"),
        (Host("gpu1.example.com", reported="gpu1"), "gpu1"),
        (Host("GPU2.example.com", reported="gpu2"), "gpu2.example.com"),
        (Host("10.0.0.5", hostname="gpu2.example.com", reported="localhost"), "gpu2.example.com"),
        (Host("10.0.0.5", node_name="gpu1", reported="gpu2"), "gpu1"),
    ],
)
def test_a_host_is_found_by_its_name(host: Host, node: str) -> None:
    assert cluster_nodes.find(host, NODES) == (node, "")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            Host("gpu3", reported="gpu3"),
            "the cluster has no node named gpu3 (did you mean gpu1?): set gpu_cluster_node_name",
        ),
        (
            Host("10.0.0.5", reported="gpu2.example.com"),
            "the cluster has no node named 10.0.0.5 (did you mean gpu2.example.com?): set gpu_cluster_node_name",
        ),
        (
            Host("gpu2", reported="gpu2.example.com"),
            "the cluster has no node named gpu2 (did you mean gpu2.example.com?)",
        ),
        (Host("gpu1", node_name="gqu1"), "the cluster has no node named gqu1 (did you mean gpu1?)"),
    ],
)
def test_a_host_that_is_no_node(host: Host, words: str) -> None:
    found, why = cluster_nodes.find(host, NODES)
    assert found is None
    assert words in why and why.endswith("to an existing node (gpu1, gpu2.example.com)")


def test_a_host_that_reports_the_name_of_another_node() -> None:
    assert cluster_nodes.candidates(Host("gpu1", reported="control-plane-1")) == ["gpu1"]
    assert cluster_nodes.find(Host("gpu1", reported="gpu2.example.com"), NODES) == (
        None,
        "the host name is 'gpu2.example.com', and not gpu1: set gpu_cluster_node_name to 'gpu2.example.com' if that is its "
        "node",
    )
    assert "'\\x1b[2j'" in cluster_nodes.other_hostname(Host("gpu1", reported="\x1b[2j"))


@pytest.mark.parametrize(
    ("host", "strategy", "resources"),
    [
        (Host("a", gpus=[gpu(0), gpu(1)], layout=SEVEN), "single", {"nvidia.com/gpu": 14}),
        (Host("a", gpus=[gpu(0)], layout=SEVEN), "mixed", {"nvidia.com/mig-1g.10gb": 7}),
        (Host("a", gpus=[gpu(0)], layout=SEVEN), "none", {"nvidia.com/gpu": 1}),
        (Host("a", gpus=[gpu(0)], layout=OFF), "single", {"nvidia.com/gpu": 1}),
        (Host("a", gpus=[gpu(0)], layout=SPLIT), "none", {"nvidia.com/gpu": 1}),
        (Host("a", gpus=[gpu(0, instance(1, "3g.40gb", 4, 4))]), "mixed", {"nvidia.com/mig-3g.40gb": 1}),
        (Host("a", boards=["A100-80GB"] * 2, layout=SEVEN), "single", {"nvidia.com/gpu": 14}),
        (Host("a", boards=["A100-80GB"] * 2), "mixed", {"nvidia.com/gpu": 2}),
        (Host("a", gpus=[]), "mixed", {}),
        (Host("a"), "mixed", None),
        (Host("a", gpus=[{"index": None}], layout=SEVEN), "mixed", None),
    ],
)
def test_expected_resources(host: Host, strategy: str, resources: t.Optional[t.Dict[str, int]]) -> None:
    assert cluster_nodes.expected_resources(host, strategy) == resources


@pytest.mark.parametrize(
    ("layout", "strategy", "words"),
    [
        (UNEQUAL, "single", "needs MIG devices of one profile on the whole node.*or use the strategy mixed"),
        (SPLIT, "mixed", "the NVIDIA device plugin exits.*use whole GPU instances"),
        ([*SEVEN, {"devices": 0, "mig_enabled": False}], "single", "needs MIG on or off on every GPU"),
    ],
)
def test_layouts_that_a_strategy_does_not_support(layout: t.Any, strategy: str, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        cluster_nodes.expected_resources(Host("a", gpus=[gpu(0), gpu(1)], layout=layout), strategy)


def test_unused_instances_under_none_give_a_warning() -> None:
    host = Host("a", gpus=[gpu(0)], layout=SEVEN)
    assert "the MIG instances of" in cluster_nodes.unused(host, "none")
    assert cluster_nodes.unused(host, "single") == ""
    assert cluster_nodes.unused(host._replace(layout=OFF), "none") == ""
    empty = [{"devices": "all", "mig_enabled": True, "mig_devices": {}}]
    assert cluster_nodes.unused(host._replace(layout=empty), "none") == ""


def test_only_gpus_of_the_layout_are_configured() -> None:
    host = Host("a", gpus=[gpu(0), gpu(1), gpu(2)], layout=[{**SEVEN[0], "devices": [1]}])
    assert list(cluster_nodes.layout_contents(host)) == [1]


@pytest.mark.parametrize(
    ("devices", "profile"),
    [({"1g.5gb": 7}, "1g.5gb"), ({}, ""), ({"1g.5gb+me": 1}, None), ({"1g.5gb": 1, "3g.20gb": 1}, None)],
)
def test_the_profile_with_the_strategy_single(devices: t.Dict[str, int], profile: t.Optional[str]) -> None:
    layout = [{"devices": "all", "mig_enabled": bool(devices), "mig_devices": devices}]
    host = Host("a", boards=["A100-40GB"] * 2, layout=layout)
    assert cluster_nodes.single_profile(host, "single") == profile
    assert cluster_nodes.single_profile(host, "mixed") is None
    assert cluster_nodes.single_profile(Host("a", layout=layout), "single") is None


def test_a_host_has_the_layout_that_it_names() -> None:
    variables = {"nvidia_mig_layout": "seven", "nvidia_mig_layouts": {"seven": SEVEN}}
    assert cluster_nodes.host_of("gpu1", variables).layout == SEVEN
