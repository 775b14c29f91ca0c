# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_plan."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.mig_plan import FilterModule
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import (
    H100,
    LOST,
    UNKNOWN,
    gpu,
    instance,
    reduced,
)

mig_plan = FilterModule().filters()["mig_plan"]
HALF = instance(1, "3g.40gb", 4, 4)
SMALL = instance(11, "1g.10gb", 0, 1)


def places(instances: t.List[t.Dict[str, t.Any]]) -> t.List[str]:
    return ["%(profile)s@%(start)d:%(size)d" % instance for instance in instances]


def test_kept_destroyed_and_created_instances() -> None:
    plan = mig_plan(gpu(0, HALF, SMALL), {"3g.40gb": 2})
    assert plan["changed"] is True
    assert plan["kept"] == [HALF]
    assert plan["destroyed"] == [SMALL]
    assert plan["created"] == [
        {
            "id": None,
            "profile": "3g.40gb",
            "start": 0,
            "size": 4,
            "compute_instances": [{"id": None, "profile": "3g.40gb", "slices": 3, "uuid": None}],
        }
    ]
    assert plan["operations"] == [
        "destroy compute instance 1g.10gb in 1g.10gb at 0:1",
        "destroy GPU instance 1g.10gb at 0:1",
        "create GPU instance 3g.40gb at 0:4",
        "create compute instance 3g.40gb in 3g.40gb at 0:4",
    ]
    assert "|1g.10gb|" in plan["map"]["before"]
    assert "|1g.10gb|" not in plan["map"]["after"]


def test_nothing_to_do() -> None:
    plan = mig_plan(gpu(0, HALF, SMALL), {"3g.39gb": 1, "1g.10gb": 1, "2g.20gb": 0})
    assert (plan["changed"], plan["destroyed"], plan["created"], plan["operations"]) == (False, [], [], [])
    assert plan["map"]["before"] == plan["map"]["after"]


def test_compute_instances_of_a_kept_instance() -> None:
    plan = mig_plan(
        gpu(0, instance(1, "3g.40gb", 4, 4, 1)), [{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb"] * 2}]
    )
    assert places(plan["kept"]) == ["3g.40gb@4:4"]
    assert [(ci["id"], ci["uuid"]) for ci in plan["kept"][0]["compute_instances"]] == [(0, "MIG-1-0"), (None, None)]
    assert plan["operations"] == ["create compute instance 1c.3g.40gb in 3g.40gb at 4:4"]


def test_an_instance_without_compute_instance_is_repaired() -> None:
    broken = dict(HALF, compute_instances=[])
    assert mig_plan(gpu(0, broken), {"3g.40gb": 1})["operations"] == [
        "create compute instance 3g.40gb in 3g.40gb at 4:4"
    ]


def test_instances_in_every_notation() -> None:
    plan = mig_plan([{"profile": "1g.10gb", "start": 4}], {"3g.40gb": 1, "1g.10gb": 1}, board="A100-80GB")
    assert places(plan["kept"]) == ["1g.10gb@4:1"]
    assert places(plan["created"]) == ["3g.40gb@0:4"]
    assert places(mig_plan([], {"7g.80gb": 1}, "A100-80GB")["created"]) == ["7g.80gb@0:8"]


def test_mig_is_enabled_where_it_is_off() -> None:
    assert mig_plan(gpu(0, current=False), {})["operations"] == ["turn MIG mode on"]


@pytest.mark.parametrize(
    "current, desired, board, message",
    [
        ([], {"3g.40gb": 3}, "A100-80GB", "^A100-80GB: 3g.40gb: 3 does not fit"),
        ([], {"1g.5gb": 3}, "A100-80GB", "A100-80GB has no profile 1g.5gb: use one of 1g.10gb"),
        ([], {"3g.40gb": 1}, None, "set board, for example"),
        ("A100-80GB", {}, "A100-80GB", "give a list, as in the facts' mig.instances"),
        ([{"profile": "1g.10gb"}], {}, "A100-80GB", "instance 1 needs profile and start"),
        ([7], {}, "A100-80GB", "instance 1 needs profile and start"),
        ([{"profile": "1g.5gb", "start": 0}], {}, "A100-80GB", "instance 1: A100-80GB has no profile 1g.5gb; it has"),
        ([{"profile": "3g.40gb", "start": 1}], {}, "A100-80GB", "its placements are 0:4, 4:4"),
        ([{"profile": "3g.40gb", "start": 0, "size": 2}], {}, "A100-80GB", "cannot be placed at 0:2"),
        (
            [{"profile": "3g.40gb", "start": 0}, {"profile": "1g.10gb", "start": 3}],
            {},
            "A100-80GB",
            "the instances at 0:4 and 3:1 overlap",
        ),
        (
            [{"profile": "3g.40gb", "start": 0, "compute_instances": [1]}],
            {},
            "A100-80GB",
            "a compute instance needs slices or profile",
        ),
        (
            [{"profile": "3g.40gb", "start": 0, "compute_instances": 1}],
            {},
            "A100-80GB",
            "instance 1: its compute_instances are 1: give a list",
        ),
        (
            gpu(0, pci_device_id="0x12345678"),
            {},
            None,
            "GPU 0 .NVIDIA A100 80GB PCIe.: unknown board .*set board to",
        ),
        (gpu(0, pci_device_id=None), {}, None, "has no pci_device_id: set board to its board"),
        (dict(gpu(0), index=None), {}, "A100-80GB", "has no index: the driver does not list it"),
        (gpu(0, current=None), {}, "A100-80GB", "Tesla T4. does not support MIG"),
    ],
)
def test_refusals(current: t.Any, desired: t.Any, board: t.Optional[str], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_plan(current, desired, board)


def test_a_compute_instance_of_the_other_kind_is_recreated() -> None:
    h100 = gpu(0, reduced(4, 2), instance(5, "1g.20gb", 4, 2), pci_device_id=H100)
    plan = mig_plan(h100, {"1g.20gb": 2})
    assert plan["operations"] == [
        "destroy compute instance 1c.1g.20gb in 1g.20gb at 2:2",
        "create compute instance 1g.20gb in 1g.20gb at 2:2",
    ]
    assert [one["compute_instances"][0]["profile"] for one in plan["kept"]] == ["1g.20gb"] * 2
    assert "|1g.20gb[1c]" in plan["map"]["before"] and "[1c]" not in plan["map"]["after"]
    assert mig_plan(h100, {"1g.20gb": 1, "1c.1g.20gb": 1})["changed"] is False
    created = mig_plan([], {"1c.1g.20gb": 1}, board="H100-80GB")["created"]
    assert created[0]["compute_instances"] == [{"id": None, "profile": "1c.1g.20gb", "slices": 1, "uuid": None}]


@pytest.mark.parametrize("fact, message", UNKNOWN)
def test_a_gpu_that_could_not_be_read_is_refused(fact: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_plan(fact, {}, "A100-80GB")


def test_a_lost_gpu_of_unknown_board_is_refused_as_lost() -> None:
    with pytest.raises(AnsibleFilterError, match="GPU_IS_LOST"):
        mig_plan(dict(LOST, pci_device_id=None), {})
