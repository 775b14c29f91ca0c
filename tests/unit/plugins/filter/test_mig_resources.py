# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_resources."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.mig_resources import FilterModule
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import (
    H100,
    UNKNOWN,
    gpu,
    instance,
    reduced,
)

mig_resources = FilterModule().filters()["mig_resources"]

SEVEN = [instance(number, "1g.10gb", number, 1) for number in range(7)]
MIXED = [
    gpu(0, instance(1, "3g.40gb", 4, 4), instance(2, "1g.10gb", 0, 1), instance(3, "1g.10gb+me", 1, 1)),
    gpu(1, instance(1, "3g.40gb", 0, 4)),
    gpu(2, current=False),
    gpu(3, current=None),
    gpu(4),
]


def layout(**held_: t.Any) -> t.List[t.Any]:
    return [{"devices": "all", "mig_enabled": True, "mig_devices": dict(held_)}]


@pytest.mark.parametrize(
    "strategy, resources",
    [
        ("none", {"nvidia.com/gpu": 5}),
        (
            "mixed",
            {
                "nvidia.com/gpu": 2,
                "nvidia.com/mig-1g.10gb": 1,
                "nvidia.com/mig-1g.10gb.me": 1,
                "nvidia.com/mig-3g.40gb": 2,
            },
        ),
    ],
)
def test_resources_of_the_current_instances(strategy: str, resources: t.Dict[str, int]) -> None:
    assert mig_resources(MIXED, strategy) == resources


@pytest.mark.parametrize(
    "gpus, resources",
    [
        ([gpu(0, *SEVEN), gpu(1, *SEVEN)], {"nvidia.com/gpu": 14}),
        ([gpu(0, *SEVEN[:2]), gpu(1, *SEVEN)], {"nvidia.com/gpu": 9}),
        ([gpu(0, current=False), gpu(1, current=None)], {"nvidia.com/gpu": 2}),
        ([], {}),
    ],
)
def test_the_single_strategy(gpus: t.List[t.Any], resources: t.Dict[str, int]) -> None:
    assert mig_resources(gpus, "single") == resources


@pytest.mark.parametrize(
    "gpus, message",
    [
        ([gpu(0, *SEVEN), gpu(1, current=False)], "it is on for GPU 0 .* and off for GPU 1 .* strategy mixed"),
        ([gpu(0, *SEVEN), gpu(1)], "GPU 1 .* has none: use the same layout on all GPUs"),
        ([gpu(0, *SEVEN), gpu(1, instance(1, "3g.40gb", 0, 4))], "1g.10gb on GPU 0 .* and 3g.40gb on GPU 1"),
        ([gpu(0, instance(1, "3g.40gb", 0, 4, 2, 1))], "2c.3g.40gb on GPU 0 .* and 1c.3g.40gb on GPU 0"),
        ([gpu(0, *SEVEN[:1], instance(9, "1g.10gb+me", 1, 1))], "1g.10gb on GPU 0 .* and 1g.10gb.me on GPU 0"),
    ],
)
def test_layouts_that_the_single_strategy_does_not_support(gpus: t.List[t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_resources(gpus, "single")


@pytest.mark.parametrize("slices", [(1, 1, 1), (2, 1), (1,)])
def test_under_mixed_the_device_plugin_exits_where_compute_instances_are_split(slices: t.Tuple[int, ...]) -> None:
    message = "device plugin exits .* the node advertises no resources: %dc.3g.40gb on GPU 1 .GPU-0001" % slices[0]
    with pytest.raises(AnsibleFilterError, match=message):
        mig_resources([gpu(0, *SEVEN), gpu(1, instance(1, "3g.40gb", 0, 4, *slices))], "mixed")
    parts = ["%dc.3g.40gb" % count for count in slices]
    entries = [{"devices": 0, "mig_enabled": True, "mig_devices": [{"profile": "3g.40gb", "compute_instances": parts}]}]
    with pytest.raises(AnsibleFilterError, match="device plugin exits"):
        mig_resources(entries, "mixed", gpus=["A100-80GB"])


def test_the_single_strategy_offers_split_compute_instances_that_are_alike() -> None:
    assert mig_resources([gpu(0, instance(1, "3g.40gb", 0, 4, 1, 1, 1))], "single") == {"nvidia.com/gpu": 3}


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
@pytest.mark.parametrize("fact, message", UNKNOWN)
def test_a_gpu_that_could_not_be_read_is_refused(strategy: str, fact: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_resources([gpu(0), fact], strategy)
    with pytest.raises(AnsibleFilterError, match=message):
        mig_resources(layout(), strategy, gpus=[gpu(0), fact])


def test_a_layout_on_boards() -> None:
    entries = [
        *layout(**{"3g.40gb": 1, "1g.10gb": 4}),
        {"devices": [1], "mig_enabled": False},
        {"devices": [3], "mig_enabled": True, "mig_devices": {}},
    ]
    resources = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 8, "nvidia.com/mig-3g.40gb": 2}
    assert mig_resources(entries, "mixed", gpus=["A100-80GB"] * 4) == resources
    assert mig_resources(entries, "mixed", ["0x20B510DE"] * 4) == resources
    assert mig_resources(layout(**{"1g.10gb": 7}), "single", gpus=["A100-80GB"] * 8) == {"nvidia.com/gpu": 56}


def test_gpus_that_the_layout_does_not_name_are_unchanged() -> None:
    entries = [{"devices": [2], "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}]
    assert mig_resources(entries, "mixed", gpus=MIXED) == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.10gb": 1,
        "nvidia.com/mig-1g.10gb.me": 1,
        "nvidia.com/mig-3g.40gb": 2,
        "nvidia.com/mig-7g.80gb": 1,
    }
    one = [{"devices": [0], "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}]
    assert mig_resources(one, "mixed", gpus=["A100-80GB"] * 2) == {"nvidia.com/gpu": 1, "nvidia.com/mig-7g.80gb": 1}


def test_mixed_boards_and_their_names() -> None:
    entries = [
        {"devices": "A100*", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}},
        {"devices": "all", "device_filter": "0x233010DE", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}},
    ]
    assert mig_resources(entries, "mixed", gpus=["A100-80GB", "H100-80GB"]) == {
        "nvidia.com/mig-1g.10gb": 7,
        "nvidia.com/mig-3g.40gb": 2,
    }


def test_filters_and_names_select_the_product_of_a_board() -> None:
    pcie = {"devices": "all", "device_filter": "0x20B510DE", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}
    entries = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}, pcie]
    assert mig_resources(entries, "mixed", gpus=["A100-80GB"] * 2) == {"nvidia.com/mig-3g.40gb": 4}
    assert mig_resources(entries, "mixed", gpus=["0x20B210DE"] * 2) == {"nvidia.com/mig-1g.10gb": 14}
    named = [dict(pcie, devices="*PCIe", device_filter=None)]
    assert mig_resources(named, "mixed", gpus=["A100-80GB"] * 2) == {"nvidia.com/mig-3g.40gb": 4}


SUBSYSTEM = [
    {"devices": "all", "mig_enabled": False},
    {
        "devices": "all",
        "device_filter": "0x20B210DE:0x146310DE",
        "mig_enabled": True,
        "mig_devices": {"3g.40gb": 2},
    },
]


@pytest.mark.parametrize("subsystem, resource", [("0x146310DE", "mig-3g.40gb"), ("0x147F10DE", "gpu")])
def test_a_filter_with_a_subsystem_is_compared_with_the_facts(subsystem: str, resource: str) -> None:
    gpus = [gpu(0, pci_device_id="0x20B210DE", pci_subsystem_id=subsystem)]
    assert list(mig_resources(SUBSYSTEM, "mixed", gpus=gpus)) == ["nvidia.com/" + resource]


@pytest.mark.parametrize("node", ["0x20B210DE", "A100-80GB", gpu(0, pci_device_id="0x20B210DE")])
def test_a_result_that_depends_on_an_unknown_subsystem_is_refused(node: t.Any) -> None:
    with pytest.raises(
        AnsibleFilterError, match="entry 2 .*, GPU 0 .*0x20B210DE:0x146310DE.* pass the GPUs of the facts"
    ):
        mig_resources(SUBSYSTEM, "mixed", gpus=[node])
    same = [SUBSYSTEM[1], dict(SUBSYSTEM[1], device_filter=None)]
    assert mig_resources(same, "mixed", gpus=[node]) == {"nvidia.com/mig-3g.40gb": 2}
    assert mig_resources(SUBSYSTEM, "mixed", gpus=["0x20B510DE"]) == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    "value, strategy, options, message",
    [
        (MIXED, "many", {}, "unknown MIG strategy 'many': use one of none, single, mixed"),
        (layout(), "mixed", {}, "pass them in gpus"),
        ("x", "mixed", {}, "pass them in gpus"),
        (layout(), "mixed", {"gpus": []}, "give ansible_facts.nvidia.gpus, or a list of board names"),
        (layout(), "mixed", {"gpus": "A100-80GB"}, "give ansible_facts.nvidia.gpus, or a list of board names"),
        (layout(), "mixed", {"gpus": [7]}, "item 1 of gpus is neither"),
        (layout(), "mixed", {"gpus": ["A1000"]}, "unknown board .A1000.: use one of A"),
        (layout(**{"3g.40gb": 3}), "mixed", {"gpus": ["A100-80GB"]}, "GPU 0 .*does not fit"),
        (layout(**{"3g.41gb": 0, "1g.5gb": 1}), "mixed", {"gpus": MIXED}, "entry 1 .*, GPU 0 .*has no profile 1g.5gb"),
        (layout(**{"3g.40gb": -1}), "mixed", {"gpus": MIXED}, "entry 1 .*between 0 and 64"),
        ([dict(layout()[0], devices=9)], "mixed", {"gpus": MIXED}, "entry 1 .*index 9 matches no GPU"),
    ],
)
def test_refusals(value: t.Any, strategy: str, options: t.Dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_resources(value, strategy, **options)


@pytest.mark.parametrize("strategy, resource", [("single", "nvidia.com/gpu"), ("mixed", "nvidia.com/mig-1g.20gb")])
def test_both_kinds_of_a_1g_with_double_memory_are_one_resource(strategy: str, resource: str) -> None:
    """The device plugin builds the name from slices and memory, which are equal."""
    gpus = [gpu(0, reduced(4, 2), instance(5, "1g.20gb", 4, 2), pci_device_id=H100)]
    assert mig_resources(gpus, strategy) == {resource: 2}


def test_shared_gpus() -> None:
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.10gb", "replicas": 4}]}}
    gpus = ["A100-80GB"]
    wanted = {"nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-3g.40gb": 1}
    assert mig_resources(layout(**{"1g.10gb": 4, "3g.40gb": 1}), "mixed", gpus=gpus, sharing=sharing) == wanted
    # As for the device plugin, a resource may be missing.
    wanted = {"nvidia.com/mig-3g.40gb": 1}
    assert mig_resources(layout(**{"3g.40gb": 1}), "mixed", gpus=gpus, sharing=sharing) == wanted
