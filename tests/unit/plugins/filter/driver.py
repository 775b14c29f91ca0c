# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the driver's filters share: the role's tables, wishes, nodes."""

from __future__ import annotations

import typing as t
from functools import cache
from pathlib import Path

import yaml
from jinja2.nativetypes import NativeEnvironment

VARS = Path(__file__).resolve().parents[4] / "roles" / "nvidia_driver" / "vars"
SYSTEMS: t.List[str] = yaml.safe_load((VARS / "main.yml").read_text())["__nvidia_driver_systems"]

Data = t.Dict[str, t.Any]

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


@cache
def table(system: str) -> Data:
    """The role's table, with the references that Ansible would fill in."""
    common = yaml.safe_load((VARS / (system.split("_")[0] + ".yml")).read_text())

    def filled(value: t.Any) -> t.Any:
        if isinstance(value, str) and value.startswith("{{"):
            return NativeEnvironment().from_string(value).render(common)
        return {key: filled(each) for key, each in value.items()} if isinstance(value, dict) else value

    own = yaml.safe_load((VARS / (system + ".yml")).read_text())["__nvidia_driver_table"]
    return t.cast(Data, filled(own))


def independent(system: str) -> t.List[str]:
    common = yaml.safe_load((VARS / (system.split("_")[0] + ".yml")).read_text())
    return t.cast("t.List[str]", common["__nvidia_driver_independent"])


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
    found = yaml.safe_load((VARS.parent / "defaults" / "main.yml").read_text())
    return {name.removeprefix("nvidia_driver_"): value for name, value in found.items()}


def wanted(**other: t.Any) -> Data:
    """The role's defaults, but for what is told."""
    return {**defaults(), **other}
