# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and settings for the tests of the driver's plugins."""

from __future__ import annotations

import typing as t
from functools import cache
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import plan as _plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import tables

ROLE = Path(__file__).resolve().parents[5] / "roles" / "nvidia_driver"
SYSTEMS = tables.system_names()
table = tables.load_table

Data = t.Dict[str, t.Any]

A100, H100, H200, B200, B300, GH200, V100, K80, T4 = (
    "20B5",
    "2330",
    "2335",
    "2901",
    "3182",
    "2342",
    "1DB6",
    "102D",
    "1EB8",
)
ARM: Data = {"architecture": "aarch64"}

KERNELS = {
    "debian_12": "6.1.0-56-amd64",
    "debian_13": "6.12.117+deb13-cloud-amd64",
    "ubuntu_20.04": "5.4.0-216-generic",
    "ubuntu_22.04": "5.15.0-203-generic",
    "ubuntu_24.04": "6.8.0-149-generic",
    "ubuntu_26.04": "7.0.0-43-generic",
    "el_9": "5.14.0-503.el9.x86_64",
    "el_10": "6.12.0-55.el10.x86_64",
}


def independent(system: str) -> t.List[str]:
    return t.cast("t.List[str]", table(system)["independent"])


def gpu(device: str = "20B5", slot: int = 0, name: t.Optional[str] = None) -> Data:
    return {"pci_bus_id": "00000000:%02X:00.0" % slot, "pci_device_id": "0x%s10DE" % device, "name": name}


def node(system: str, *gpus: Data, switches: int = 0, **more: t.Any) -> Data:
    return {
        "kernel": KERNELS[system],
        "architecture": "x86_64",
        "gpus": list(gpus) or [gpu()],
        "nvswitches": [{"pci_bus_id": "00000000:0%d:00.0" % number} for number in range(switches)],
        "secure_boot": "disabled",
        **more,
    }


@cache
def defaults() -> Data:
    found = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    return {name.removeprefix("nvidia_driver_"): value for name, value in found.items()}


def role_settings(**other: t.Any) -> Data:
    """The role's defaults, except for the given settings."""
    return {**defaults(), **other}


def plan(system: str, *gpus: Data, switches: int = 0, around: t.Optional[Data] = None, **settings: t.Any) -> Data:
    given = node(system, *gpus, switches=switches, **(around or {}))
    return t.cast(Data, _plan.plan_driver(table(system), given, role_settings(**settings)))


def refusal(system: str, *gpus: Data, **settings: t.Any) -> str:
    with pytest.raises(Refusal) as caught:
        plan(system, *gpus, **settings)
    return str(caught.value)
