# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_parted."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.mig_parted import FilterModule
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import (
    H100,
    UNKNOWN,
    gpu,
    instance,
    reduced,
)

mig_parted = FilterModule().filters()["mig_parted"]
LAYOUT: t.List[t.Any] = [
    {"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 4, "7g.80gb": 0}},
    {"devices": "A100*", "mig_enabled": True, "mig_devices": [{"profile": "3g.40gb", "start": 0, "count": 1}]},
    {"devices": [2], "mig_enabled": False},
]


def test_instances_of_the_gpus() -> None:
    gpus = [
        gpu(0, instance(1, "3g.40gb", 0, 4, 2, 1), instance(2, "1g.10gb", 4, 1)),
        gpu(1, current=False),
        gpu(2, current=None),
        gpu(3),
    ]
    assert mig_parted(gpus) == {
        "version": "v1",
        "mig-configs": {
            "current": [
                {
                    "devices": [0],
                    "mig-enabled": True,
                    "mig-devices": {"1c.3g.40gb": 1, "1g.10gb": 1, "2c.3g.40gb": 1},
                },
                {"devices": [1, 2], "mig-enabled": False},
                {"devices": [3], "mig-enabled": True, "mig-devices": {}},
            ]
        },
    }


def test_a_layout_for_the_gpus_of_a_node() -> None:
    assert mig_parted(LAYOUT, "site", gpus=["A100-80GB", "H100-80GB", "H100-80GB"]) == {
        "version": "v1",
        "mig-configs": {
            "site": [
                {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 1}},
                {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 4, "3g.40gb": 1}},
                {"devices": [2], "mig-enabled": False},
            ]
        },
    }


def test_a_layout_for_any_node() -> None:
    assert mig_parted(LAYOUT[::2], name="site") == {
        "version": "v1",
        "mig-configs": {
            "site": [
                {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 4, "3g.40gb": 1}},
                {"devices": [2], "mig-enabled": False},
            ]
        },
    }


@pytest.mark.parametrize(
    "value, options, message",
    [
        (LAYOUT, {}, "entry 2 .*cannot name GPUs by product name: pass the GPUs of the node"),
        (LAYOUT, {"gpus": ["A100-40GB"]}, "entry 3 .*index 2 matches no GPU"),
        (LAYOUT[:1], {"gpus": ["A100-40GB"]}, "entry 1 .*has no profile 3g.40gb"),
        ([], {}, "the layout is empty"),
        ({}, {}, "write a list of entries"),
        ([gpu(0, dict(instance(1, "3g.40gb", 0, 4), compute_instances=[]))], {}, "GPU 0: .* no compute instance"),
        (
            [gpu(0, instance(1, "3g.40gb", 0, 4, 1), instance(2, "3g.40gb", 4, 4, 1))],
            {},
            "GPU 0: .* would pack them into the fewest",
        ),
    ],
)
def test_refusals(value: t.Any, options: t.Dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_parted(value, **options)


def test_both_kinds_of_a_1g_with_double_memory_have_names() -> None:
    gpus = [gpu(0, reduced(3, 0), reduced(4, 2), instance(5, "1g.20gb", 4, 2), pci_device_id=H100)]
    (entry,) = mig_parted(gpus)["mig-configs"]["current"]
    assert entry["mig-devices"] == {"1c.1g.20gb": 2, "1g.20gb": 1}
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1c.1g.20gb": 1}}]
    for board, name in (("H100-80GB", "1c.1g.20gb"), ("A100-80GB", "1g.20gb")):
        (entry,) = mig_parted(layout, gpus=[board])["mig-configs"]["current"]
        assert entry["mig-devices"] == {name: 1}


@pytest.mark.parametrize("fact, message", UNKNOWN)
def test_a_gpu_that_could_not_be_read_is_refused(fact: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_parted([gpu(0), fact])
    with pytest.raises(AnsibleFilterError, match=message):
        mig_parted(LAYOUT[:1], gpus=[gpu(0), fact])
