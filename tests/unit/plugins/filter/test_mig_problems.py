# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_problems."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpufleet.node.plugins.filter.mig_problems import FilterModule

from ansible_collections.gpufleet.node.tests.unit.plugins.filter.facts import LOST, NOT_ROOT, gpu

mig_problems = FilterModule().filters()["mig_problems"]
BOARDS = ["A100-80GB", "A100-80GB"]
UUID = "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"


def entry(devices: object, **mig_devices: int) -> t.Dict[str, t.Any]:
    """Profiles are written with underscores: _3g_40gb."""
    wanted = {name[1:].replace("_", "."): count for name, count in mig_devices.items()}
    return {"devices": devices, "mig_enabled": True, "mig_devices": wanted}


@pytest.mark.parametrize("gpus", [None, [], BOARDS, [gpu(0), gpu(1)]], ids=["unknown", "none", "boards", "facts"])
def test_a_good_layout(gpus: object) -> None:
    layout = [entry("all", _3g_40gb=1, _1g_10gb=3), {"devices": [1], "mig_enabled": False}]
    assert mig_problems(layout, gpus, "580") == []


def test_every_entry_is_judged() -> None:
    layout = [{"devices": "all"}, entry(0, _1g_10gb=1), {"devices": 1, "mig_enabled": "yes"}]
    found = mig_problems(layout, BOARDS)
    assert len(found) == 2
    assert found[0].startswith("entry 1 (devices: \"all\") has no mig_enabled")
    assert found[1].startswith("entry 3 (devices: 1): mig_enabled is \"yes\"")


def test_every_gpu_is_judged() -> None:
    found = mig_problems([entry(0, _3g_40gb=3), entry(1, _5g_50gb=1)], BOARDS)
    assert len(found) == 2
    assert "entry 1 (devices: 0), GPU 0" in found[0]
    assert "entry 2 (devices: 1), GPU 1" in found[1] and "5g.50gb" in found[1]


def test_a_gpu_is_called_by_what_is_known_of_it() -> None:
    (of_board,) = mig_problems([entry(1, _3g_40gb=3)], BOARDS)
    assert "GPU 1 (A100-80GB): 3g.40gb: 3 does not fit" in of_board
    (of_fact,) = mig_problems([entry(1, _3g_40gb=3)], [gpu(0), gpu(1)])
    assert "GPU 1 (GPU-" in of_fact


def test_a_gpu_that_the_node_does_not_have() -> None:
    [found] = mig_problems([entry(2, _7g_80gb=1)], BOARDS)
    assert "index 2 matches no GPU" in found


def test_a_board_that_nobody_knows() -> None:
    [found] = mig_problems([entry("all", _1g_10gb=1)], ["A100-80G"])
    assert "no board is called 'A100-80G'" in found


def test_gpus_named_by_what_a_board_does_not_tell_need_only_fit_somewhere() -> None:
    mixed = ["A100-40GB", "A100-80GB"]
    assert mig_problems([entry(UUID, _1g_10gb=7)], mixed) == []
    assert mig_problems([dict(entry("all", _1g_10gb=7), device_filter="0x20B510DE")], mixed) == []
    [found] = mig_problems([entry("all", _1g_20gb=1), entry(UUID, _1g_10gb=8)], BOARDS)
    assert "entry 2" in found


def test_facts_tell_which_gpu_is_named() -> None:
    [found] = mig_problems([entry(UUID, _1g_10gb=7)], [gpu(0)])
    assert UUID.lower() in found.lower() and "matches no GPU" in found


@pytest.mark.parametrize("fact", [LOST, NOT_ROOT, dict(LOST, pci_device_id=None)], ids=["lost", "not root", "no id"])
def test_a_layout_is_judged_without_the_instances_of_the_gpus(fact: t.Any) -> None:
    assert mig_problems([entry("all", _1g_10gb=7)], [gpu(0), fact]) == []
    assert mig_problems([entry(1, _1g_10gb=7)], [gpu(0), fact]) == []


def test_a_gpu_of_an_unknown_board_is_left_to_the_module() -> None:
    assert mig_problems([entry("all", _9g_90gb=1)], [gpu(0, pci_device_id="0xFFFF10DE")]) == []


@pytest.mark.parametrize(
    "driver, good", [("580", True), (580, True), ("550", True), ("535.309.01", False), ("535", False), ("550.90.07-1", True)]
)
def test_the_driver_is_late_enough_for_the_board(driver: t.Union[str, int], good: bool) -> None:
    found = mig_problems([entry("all", _1g_18gb=7)], ["H200-141GB"], driver)
    assert (found == []) == good
    if not good:
        assert "MIG on H200-141GB needs driver 550.90.07 or later, and %s is asked for" % driver in found[0]


@pytest.mark.parametrize("layout", [None, [], {}, "all", 7])
def test_what_is_no_layout(layout: object) -> None:
    assert len(mig_problems(layout, BOARDS)) == 1
