# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_map."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.mig_map import FilterModule
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import (
    H100,
    LOST,
    NOT_ROOT,
    OFF,
    gpu,
    instance,
    reduced,
    unknown,
)

mig_map = FilterModule().filters()["mig_map"]


def test_the_gpus_of_the_facts() -> None:
    gpus = [
        gpu(0, instance(2, "3g.40gb", 0, 4, 2, 1), instance(9, "1g.10gb", 6, 1)),
        gpu(1, current=False),
        gpu(2, current=None),
        gpu(3, mig={"capable": True, "current": False, "pending": True, "instances": []}),
        dict(gpu(4), index=None, uuid=None, name=None, mig={"capable": None, "current": None, "instances": []}),
    ]
    assert mig_map(gpus) == (
        "GPU 0 GPU-0000... A100 80GB PCIe  |3g.40gb[2c,1c]                 |...............|1g.10gb|.......|\n"
        "GPU 1 GPU-0001... A100 80GB PCIe  MIG off\n"
        "GPU 2 GPU-0002... Tesla T4        no MIG\n"
        "GPU 3 GPU-0003... A100 80GB PCIe  MIG off, on after a reset\n"
        "GPU ? 00000000:4B:00.0 unknown    no driver\n"
    )
    assert mig_map(gpus[0]) == mig_map(gpus[:1])
    assert all(len(line) <= 60 for line in mig_map(gpus, width=60).splitlines())


@pytest.mark.parametrize(
    "fact, line",
    [
        (LOST, "GPU 1 GPU-0001... A100 80GB PCIe  unknown\n"),
        (dict(LOST, uuid=None, name=None, pci_bus_id=None, pci_device_id=None), "GPU 1  unknown\n"),
        (NOT_ROOT, "GPU 1 GPU-0001... A100 80GB PCIe  MIG on, instances unknown\n"),
        (OFF, "GPU 1 GPU-0001... A100 80GB PCIe  MIG off\n"),
        (unknown(1, None, capable=True), "GPU 1 GPU-0001... A100 80GB PCIe  unknown\n"),
    ],
)
def test_a_gpu_that_could_not_be_read_is_drawn_as_unknown(fact: t.Any, line: str) -> None:
    assert mig_map(fact) == line


def test_an_unknown_board_can_be_named() -> None:
    odd = gpu(0, instance(2, "3g.40gb", 0, 4), pci_device_id="0x12345678")
    assert "|3g.40gb" in mig_map([odd], board="A100-80GB")
    with pytest.raises(AnsibleFilterError, match="set board to the closest match"):
        mig_map([odd])


@pytest.mark.parametrize(
    "held_, line",
    [
        (
            {"3g.40gb": 1, "2g.20gb": 1},
            "A100-80GB  |2g.20gb        |...............|3g.40gb                        |\n",
        ),
        ([{"profile": "3g.40gb", "start": 4}], "A100-80GB  |%s|3g.40gb%s|\n" % ("." * 31, " " * 24)),
        ([], "A100-80GB  |%s|\n" % ("." * 63)),
        ({}, "A100-80GB  |%s|\n" % ("." * 63)),
    ],
)
def test_a_set_of_instances_on_a_board(held_: t.Any, line: str) -> None:
    assert mig_map(held_, "A100-80GB") == line


@pytest.mark.parametrize(
    "value, board, message",
    [
        ({"3g.40gb": 1}, None, "for mig_devices, set board"),
        ([], None, "for mig_devices, set board"),
        ({"3g.40gb": 3}, "A100-80GB", "does not fit"),
        ("3g.40gb", "A100-80GB", "write a mapping of profiles to counts"),
        ([gpu(0), 7], "A100-80GB", "item 1 of mig_devices"),
    ],
)
def test_refusals(value: t.Any, board: t.Optional[str], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_map(value, board)


def test_a_compute_instance_with_fewer_multiprocessors_is_shown() -> None:
    h100 = gpu(0, reduced(4, 2), instance(5, "1g.20gb", 4, 2), pci_device_id=H100, name="NVIDIA H100")
    cells = "|...............|1g.20gb[1c]    |1g.20gb        |...............|"
    assert mig_map([h100]) == "GPU 0 GPU-0000... H100  %s\n" % cells
    assert "|1g.20gb[1c]" in mig_map({"1c.1g.20gb": 1}, "H100-80GB")


LAYOUT = [
    {"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 2}},
    {"devices": [1], "mig_enabled": False},
]


def test_a_layout_on_boards() -> None:
    """What a node gets that has no driver yet."""
    assert mig_map(LAYOUT, gpus=["A100-80GB", "A100-80GB", "T4"]) == (
        "GPU 0 A100-80GB  |1g.10gb|1g.10gb|...............|3g.40gb                        |\n"
        "GPU 1 A100-80GB  MIG off\n"
        "GPU 2 T4         not in the layout\n"
    )


def test_a_layout_on_gpus_of_the_facts() -> None:
    odd = gpu(2, current=False, pci_device_id="0x12345678")
    assert mig_map(LAYOUT, gpus=[gpu(0, instance(2, "7g.80gb", 0, 8)), gpu(1), odd]) == (
        "GPU 0 GPU-0000... A100 80GB PCIe  |1g.10gb|1g.10gb|...............|3g.40gb                        |\n"
        "GPU 1 GPU-0001... A100 80GB PCIe  MIG off\n"
        "GPU 2 GPU-0002... A100 80GB PCIe  MIG on, board not known\n"
    )


def test_a_layout_that_names_gpus_by_uuid_is_unknown_on_boards() -> None:
    named = [dict(LAYOUT[0], devices=["GPU-00002222-3333-4444-5555-666666666666"])]
    assert "unknown: the layout names GPUs by UUID" in mig_map(named, gpus=["A100-80GB"])
    assert "|3g.40gb" in mig_map(named, gpus=[gpu(0)])


def test_gpus_without_placements_or_of_another_type() -> None:
    with pytest.raises(AnsibleFilterError, match='gpus is "A100-80GB": give ansible_facts.nvidia.gpus'):
        mig_map(LAYOUT, gpus="A100-80GB")
    assert "the placements of RTX-PRO-4500-Blackwell-32GB are unknown" in mig_map(
        LAYOUT, gpus=["RTX-PRO-4500-Blackwell-32GB"]
    )
    with pytest.raises(AnsibleFilterError, match="8 compute slices are needed"):
        mig_map([dict(LAYOUT[0], mig_devices={"4g.40gb": 2})], gpus=["A100-80GB"])
