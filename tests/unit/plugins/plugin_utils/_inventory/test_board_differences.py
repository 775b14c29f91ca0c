# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Differences between gpu_node_boards and the GPUs of a node."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import board_differences
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, gpu

MODEL = "A100-80GB"


def test_the_boards_that_are_named() -> None:
    assert board_differences.gpu_differences([gpu(1), gpu(0)], [MODEL, str(gpu(1)["pci_device_id"])]) == []


def test_another_number() -> None:
    assert board_differences.gpu_differences([gpu(0)], [MODEL, MODEL]) == [
        "the driver shows 1 GPUs, and 2 boards are named"
    ]


def test_a_gpu_that_only_the_bus_shows_does_not_count() -> None:
    assert board_differences.gpu_differences([gpu(0), dict(gpu(1), index=None)], [MODEL]) == []


def test_without_a_driver_the_bus_is_read() -> None:
    bus = [dict(gpu(number), index=None, uuid=None) for number in (1, 0)]
    assert board_differences.gpu_differences(bus, [MODEL, MODEL]) == []
    assert board_differences.gpu_differences(bus, [MODEL]) == ["the PCI bus shows 2 GPUs, and 1 boards are named"]
    assert board_differences.gpu_differences(bus, ["H100-80GB", MODEL]) == [
        "GPU 0 00000000:47:00.0 is A100-80GB, and H100-80GB is named"
    ]


def test_another_board() -> None:
    found = board_differences.gpu_differences([gpu(0), gpu(1)], [MODEL, "H100-80GB"])
    assert len(found) == 1
    assert found == ["GPU 1 00000000:48:00.0 is %s, and H100-80GB is named" % MODEL]


def test_a_difference_of_several_gpus_is_one_message() -> None:
    gpus = [gpu(index) for index in range(4)]
    assert board_differences.gpu_differences(gpus, ["H100-80GB", MODEL, "H100-80GB", "T4"]) == [
        "GPUs 0, 2 are %s, and H100-80GB is named" % MODEL,
        "GPU 3 00000000:4A:00.0 is %s, and T4 is named" % MODEL,
    ]


def test_unknown_boards_are_ignored() -> None:
    assert board_differences.gpu_differences([dict(gpu(0), pci_device_id="0x123410DE")], [MODEL]) == []


def test_a_lost_gpu_is_identified_by_its_device_on_the_bus() -> None:
    assert board_differences.gpu_differences([gpu(0), LOST], [MODEL, MODEL]) == []
    assert board_differences.gpu_differences([gpu(0), dict(LOST, pci_device_id=None)], [MODEL, MODEL]) == []


def test_an_unknown_board_name() -> None:
    found = board_differences.gpu_differences([gpu(0), gpu(1)], ["A1000", "A1000"])
    assert len(found) == 1
    assert "unknown board 'A1000'" in found[0]


def test_boards_without_mig_and_names_of_products() -> None:
    gpus = [gpu(0), gpu(1, current=None)]
    assert board_differences.gpu_differences(gpus, ["NVIDIA A100 80GB PCIe", "Tesla T4"]) == []
    assert board_differences.gpu_differences(gpus, [MODEL, "T4"]) == []
    (found,) = board_differences.gpu_differences(gpus, [MODEL, "L40S"])
    assert found.endswith(" is T4, and L40S is named")


def test_a_node_without_the_named_gpus() -> None:
    named = {"gpu_node_boards": ["A100-80GB"]}
    (problem,) = board_differences.inventory_differences(named, [])
    assert problem.startswith("the driver shows 0 GPUs, and 1 boards are named")
    assert board_differences.inventory_differences(named, None) == board_differences.inventory_differences({}, []) == []
