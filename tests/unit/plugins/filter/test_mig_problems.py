# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_problems."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.filter.mig_problems import FilterModule
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import models
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, NOT_ROOT, gpu

mig_problems = FilterModule().filters()["mig_problems"]
BOARDS = ["A100-80GB", "A100-80GB"]
UUID = "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"


def entry(devices: object, **mig_devices: int) -> t.Dict[str, t.Any]:
    """Profiles are written with underscores: _3g_40gb."""
    desired = {name[1:].replace("_", "."): count for name, count in mig_devices.items()}
    return {"devices": devices, "mig_enabled": True, "mig_devices": desired}


@pytest.mark.parametrize("gpus", [None, [], BOARDS, [gpu(0), gpu(1)]], ids=["unknown", "none", "boards", "facts"])
def test_a_good_layout(gpus: object) -> None:
    layout = [entry("all", _3g_40gb=1, _1g_10gb=3), {"devices": [1], "mig_enabled": False}]
    assert mig_problems(layout, gpus, "580") == []


def test_more_uuids_than_boards() -> None:
    uuids = [UUID[:-1] + str(number) for number in range(3)]
    assert mig_problems([entry(uuids[:2], _1g_10gb=7)], BOARDS) == []
    assert mig_problems([entry(uuid, _1g_10gb=7) for uuid in uuids], BOARDS) == [
        "the layout names 3 GPUs by UUID, and only 2 boards are left for them"
    ]
    buses = ["00000000:%02d:00.0" % number for number in range(3)]
    assert "names 3 GPUs by PCI bus id" in mig_problems([entry(buses, _1g_10gb=7)], BOARDS)[0]


def test_every_entry_is_checked() -> None:
    layout = [{"devices": "all"}, entry(0, _1g_10gb=1), {"devices": 1, "mig_enabled": "yes"}]
    found = mig_problems(layout, BOARDS)
    assert len(found) == 2
    assert found[0].startswith('entry 1 (devices: "all") has no mig_enabled')
    assert found[1].startswith('entry 3 (devices: 1): mig_enabled is "yes"')


def test_every_gpu_is_checked() -> None:
    found = mig_problems([entry(0, _3g_40gb=3), entry(1, _5g_50gb=1)], BOARDS)
    assert len(found) == 2
    assert "entry 1 (devices: 0), GPU 0" in found[0]
    assert "entry 2 (devices: 1), GPU 1" in found[1] and "5g.50gb" in found[1]


def test_a_gpu_is_named_by_its_known_attributes() -> None:
    (of_board,) = mig_problems([entry(1, _3g_40gb=3)], BOARDS)
    assert "GPU 1 (A100-80GB): 3g.40gb: 3 does not fit" in of_board
    (of_fact,) = mig_problems([entry(1, _3g_40gb=3)], [gpu(0), gpu(1)])
    assert "GPU 1 (NVIDIA A100 80GB PCIe): 3g.40gb: 3 does not fit" in of_fact


def test_a_problem_that_gpus_share_is_one_message() -> None:
    layout = [entry("all", _3g_40gb=3), entry([1], _1g_10gb=8)]
    (all_, one) = mig_problems(layout, ["A100-80GB"] * 4)
    assert all_.startswith('entry 1 (devices: "all"), GPUs 0, 2, 3 (A100-80GB): 3g.40gb: 3 does not fit')
    assert one.startswith("entry 2 (devices: [1]), GPU 1 (A100-80GB): 1g.10gb: 8 does not fit")
    (of_facts,) = mig_problems(layout[:1], [gpu(index) for index in range(4)])
    assert of_facts.startswith('entry 1 (devices: "all"), GPUs 0, 1, 2, 3 (NVIDIA A100 80GB PCIe): 3g.40gb: 3 does')
    (of_driver,) = mig_problems([entry("all", _1g_18gb=7)], ["H200-141GB"] * 8, "535")
    assert of_driver.startswith("GPUs 0, 1, 2, 3, 4, 5, 6, 7 (H200-141GB): MIG on H200-141GB needs driver")
    (incapable,) = mig_problems([entry([0, 1], _1g_10gb=7)], ["T4", "L40S"])
    assert incapable.startswith("entry 1 (devices: [0, 1]): GPUs 0, 1 (L40S, T4) do not support MIG: remove them from")


@pytest.mark.parametrize("layout", [[entry("all", _3g_40gb=3)], [entry(0, _3g_40gb=3)], [entry(9, _3g_40gb=1)]])
def test_nodes_with_the_same_problem_share_one_message(layout: t.Any) -> None:
    nodes = [[gpu(0, uuid="GPU-%d" % node, pci_bus_id="0000000%d:47:00.0" % node), gpu(1)] for node in range(2)]
    first, second = (mig_problems(layout, node) for node in nodes)
    assert first == second and len(first) == 1


def test_a_gpu_that_the_node_does_not_have() -> None:
    [found] = mig_problems([entry(2, _7g_80gb=1)], BOARDS)
    assert "index 2 matches no GPU" in found


def test_an_unknown_board() -> None:
    [found] = mig_problems([entry("all", _1g_10gb=1)], ["A100-80G"])
    assert "unknown board 'A100-80G'" in found


def test_gpus_named_by_uuid_or_bus_id_may_be_any_board_of_the_node() -> None:
    mixed = ["A100-40GB", "A100-80GB"]
    assert mig_problems([entry(UUID, _1g_10gb=7)], mixed) == []
    assert mig_problems([dict(entry("all", _1g_10gb=7), device_filter="0x20B510DE")], mixed) == []
    [found] = mig_problems([entry("all", _1g_20gb=1), entry(UUID, _1g_10gb=8)], BOARDS)
    assert "entry 2" in found


# mig-parted's configuration all-balanced: counts by PCI device ID.
ALL_BALANCED: t.List[t.Tuple[t.List[str], t.Dict[str, int]]] = [
    (["0x294110DE"], {"1g.24gb": 2, "2g.47gb": 1, "3g.95gb": 1}),
    (["0x2BB510DE"], {"1g.24gb": 2, "2g.48gb": 1}),
    (["0x290110DE"], {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}),
    (["0x234810DE"], {"1g.18gb": 2, "2g.36gb": 1, "3g.72gb": 1}),
    (["0x233510DE", "0x233B10DE"], {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}),
    (["0x232110DE", "0x233A10DE"], {"1g.12gb": 2, "2g.24gb": 1, "3g.47gb": 1}),
    (
        [
            "0x233010DE",
            "0x233110DE",
            "0x232210DE",
            "0x232410DE",
            "0x20B210DE",
            "0x20B510DE",
            "0x20F310DE",
            "0x20F510DE",
        ],
        {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    ),
    (["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"], {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
    (["0x20B710DE"], {"1g.6gb": 2, "2g.12gb": 1}),
    (["0x234210DE", "0x233D10DE", "0x20B610DE", "0x232910DE"], {"1g.12gb": 2, "2g.24gb": 1, "3g.48gb": 1}),
]
BALANCED: t.List[t.Dict[str, t.Any]] = [
    {"devices": "all", "device-filter": ids, "mig-enabled": True, "mig-devices": counts} for ids, counts in ALL_BALANCED
]
MENTIONED = {boards.data(device)["model"] for ids, _counts in ALL_BALANCED for device in ids}


@pytest.mark.parametrize("board", sorted(MENTIONED))
@pytest.mark.parametrize("count", [1, 8])
def test_a_layout_for_every_board_is_accepted_on_every_board(board: str, count: int) -> None:
    assert mig_problems(BALANCED, [board] * count) == []


def test_a_layout_for_every_board_is_accepted_on_a_mixed_node() -> None:
    assert mig_problems(BALANCED, ["A30-24GB", "A100-40GB", "H100-NVL-94GB"]) == []


@pytest.mark.parametrize("board", sorted(set(models()) - MENTIONED))
def test_boards_that_a_layout_does_not_mention(board: str) -> None:
    [found] = mig_problems(BALANCED, [board])
    assert "no entry of the layout selects a GPU of this node" in found
    assert "GPU 0 (%s), 0x" % board in found


def test_a_filter_that_names_one_of_the_products() -> None:
    pcie = [dict(entry("all", _1g_10gb=7), device_filter="0x20B510DE")]
    assert mig_problems(pcie, BOARDS) == []
    assert mig_problems(pcie, ["0x20b510de"]) == []
    [found] = mig_problems(pcie, ["0x20B210DE"])
    assert "no entry of the layout selects a GPU of this node" in found
    too_many = [dict(entry("all", _1g_10gb=8), device_filter="0x20B510DE")]
    [found] = mig_problems(too_many, ["0x20B510DE"])
    assert "GPU 0 (A100-80GB): 1g.10gb: 8 does not fit" in found


def test_a_filter_with_a_subsystem_may_mean_any_board_with_the_device_id() -> None:
    layout = [dict(entry("all", _1g_10gb=7), device_filter="0x20B510DE:0x153310DE")]
    assert mig_problems(layout, BOARDS) == []
    assert mig_problems(layout, [gpu(0)]) == []
    assert mig_problems(layout, [gpu(0, pci_subsystem_id="0x153310DE")]) == []
    [found] = mig_problems(layout, [gpu(0, pci_subsystem_id="0x147F10DE")])
    assert "no entry of the layout selects a GPU of this node" in found
    [found] = mig_problems(layout, ["H100-80GB"])
    assert "no entry of the layout selects a GPU of this node" in found


SXM, SUBSYSTEM = "0x20B210DE", "0x146310DE"
# Infeasible on the subsystem that it names, and MIG off on any other.
DEPENDS = [
    {"devices": "all", "mig_enabled": False},
    dict(entry("all", _3g_40gb=3), device_filter="%s:%s" % (SXM, SUBSYSTEM)),
]


def test_a_filter_with_a_subsystem_is_compared_with_the_facts() -> None:
    [found] = mig_problems(DEPENDS, [gpu(0, pci_device_id=SXM, pci_subsystem_id=SUBSYSTEM)])
    assert "entry 2" in found and "GPU 0 (NVIDIA" in found and "3g.40gb: 3 does not fit" in found
    assert mig_problems(DEPENDS, [gpu(0, pci_device_id=SXM, pci_subsystem_id="0x147F10DE")]) == []


@pytest.mark.parametrize("node", [[SXM], [gpu(0, pci_device_id=SXM)]], ids=["id", "no subsystem in facts"])
def test_an_entry_that_does_not_fit_on_an_unknown_subsystem(node: t.Any) -> None:
    [found] = mig_problems(DEPENDS[1:] + DEPENDS[:1] + DEPENDS[1:], node)
    assert "entry 3" in found and "3g.40gb: 3 does not fit" in found
    assert "may be 0x20B210DE:0x146310DE and is not known in full: pass the GPUs of the facts" in found
    assert mig_problems(DEPENDS, ["A100-80GB"]) == []  # another product of the board supports it


BUS_ID = "00000000:47:00.0"


def test_a_uuid_and_a_bus_id_may_name_one_gpu() -> None:
    """The module applies the last entry, as for any GPU that two entries name."""
    layout = [entry(UUID, _3g_40gb=3), entry(BUS_ID, _3g_40gb=2)]
    assert mig_problems(layout, [gpu(0, uuid=UUID, pci_bus_id=BUS_ID)]) == []
    assert mig_problems(layout, BOARDS[:1]) == []
    [found] = mig_problems(layout[::-1], BOARDS)
    assert "entry 2" in found and "3g.40gb: 3 does not fit" in found
    both = [entry([UUID, BUS_ID], _3g_40gb=2)]
    assert mig_problems(both, BOARDS) == []
    [found] = mig_problems(both, BOARDS[:1])
    assert "entry 1" in found and "names 2 GPUs by UUID and PCI bus id, and only 1 boards are left" in found


@pytest.mark.parametrize("name", ["A100*", "a100-sxm4-80gb", "NVIDIA A100 80GB PCIe", "*80GB*"])
def test_product_names_select_boards(name: str) -> None:
    assert mig_problems([entry(name, _1g_10gb=7)], BOARDS) == []
    [found] = mig_problems([entry(name, _1g_10gb=8)], ["A100-80GB"])
    assert "GPU 0 (A100-80GB): 1g.10gb: 8 does not fit" in found


def test_an_unknown_product_name() -> None:
    [found] = mig_problems([entry("all", _1g_10gb=7), entry("H200*", _1g_18gb=7)], BOARDS)
    assert 'entry 2 (devices: "H200*"): product name H200* matches no GPU: use one of' in found
    assert "GPU 0 (A100-80GB); GPU 1 (A100-80GB)" in found


def test_one_gpu_is_not_two_products() -> None:
    layout = [entry("*SXM4*", _1g_10gb=7), entry("*PCIe", _1g_10gb=6)]
    assert mig_problems(layout, BOARDS) == []
    [found] = mig_problems(layout, BOARDS[:1])
    assert "matches no GPU" in found


def test_a_uuid_may_name_the_gpu_that_does_not_fit_another_entry() -> None:
    layout = [entry("all", _1g_10gb=7), entry(UUID, _1g_6gb=4)]
    assert mig_problems(layout, ["A100-80GB", "A30-24GB"]) == []
    [found] = mig_problems(layout[:1], ["A100-80GB", "A30-24GB"])
    assert "GPU 1 (A30-24GB): mig_devices['1g.10gb']: A30-24GB has no profile 1g.10gb" in found


def test_a_filter_that_matches_no_board_is_refused_for_a_uuid_too() -> None:
    [found] = mig_problems([dict(entry(UUID, _1g_10gb=7), device_filter="0x233010DE")], BOARDS)
    assert "no entry of the layout selects a GPU of this node" in found


def test_a_board_without_known_placements_is_left_to_the_module() -> None:
    assert mig_problems([entry("all", _9g_90gb=1)], ["Thor-iGPU-GB10B"]) == []


def test_a_gpu_that_cannot_be_read_is_left_to_the_module() -> None:
    lost = gpu(1, current=None, problem="GPU is lost")
    lost["mig"] = dict.fromkeys(lost["mig"])
    assert mig_problems([entry(0, _1g_10gb=7)], [gpu(0), lost]) == []


def test_facts_identify_a_named_gpu() -> None:
    [found] = mig_problems([entry(UUID, _1g_10gb=7)], [gpu(0)])
    assert (
        UUID.lower() in found.lower()
        and "matches no GPU: use one of the GPUs that this node has: GPU 0 (GPU-0" in found
    )


@pytest.mark.parametrize("fact", [LOST, NOT_ROOT, dict(LOST, pci_device_id=None)], ids=["lost", "not root", "no id"])
def test_existing_instances_do_not_matter(fact: t.Any) -> None:
    assert mig_problems([entry("all", _1g_10gb=7)], [gpu(0), fact]) == []
    assert mig_problems([entry(1, _1g_10gb=7)], [gpu(0), fact]) == []


def test_a_gpu_of_an_unknown_board_is_left_to_the_module() -> None:
    assert mig_problems([entry("all", _9g_90gb=1)], [gpu(0, pci_device_id="0xFFFF10DE")]) == []


@pytest.mark.parametrize(
    "driver, good",
    [
        ("580", True),
        (580, True),
        ("550", True),
        ("535.309.01", False),
        ("535", False),
        ("550.90.07-1", True),
        ("550.90", False),
        ("latest", True),
    ],
)
def test_the_driver_supports_the_board(driver: t.Union[str, int], good: bool) -> None:
    found = mig_problems([entry("all", _1g_18gb=7)], ["H200-141GB"], driver)
    assert (found == []) == good
    if not good:
        assert "MIG on H200-141GB needs driver 550.90.07 or later, but %s is requested" % driver in found[0]


@pytest.mark.parametrize("layout", [None, [], {}, "all", 7])
def test_an_invalid_layout(layout: object) -> None:
    assert len(mig_problems(layout, BOARDS)) == 1


def test_boards_without_mig() -> None:
    mixed = ["T4", "A100-SXM4-80GB"]
    assert mig_problems([entry("all", _1g_10gb=7)], mixed) == []
    assert mig_problems([{"devices": 0, "mig_enabled": False}, entry("A100*", _1g_10gb=7)], mixed) == []
    [found] = mig_problems([entry([0, 1], _1g_10gb=7)], mixed)
    assert "entry 1 (devices: [0, 1]): GPU 0 (T4) does not support MIG: remove it from the entry" in found
    [found] = mig_problems([entry("all", _1g_10gb=7)], ["NVIDIA L40S", "A10"])
    assert "none of the selected GPUs supports MIG" in found
