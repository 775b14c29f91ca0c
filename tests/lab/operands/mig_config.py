# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configurations in mig-parted's format: which MIG mode and instances a GPU should have."""

from __future__ import annotations

import itertools
import typing as t

MANAGED_KEYS = {"device-filter", "devices", "mig-enabled", "mig-devices"}
# Without a ConfigMap. The original also generates configurations for each profile.
DEFAULT = {"version": "v1", "mig-configs": {"all-disabled": [{"devices": "all", "mig-enabled": False}]}}


class Invalid(Exception):
    """The configuration is not valid, or does not fit the node's GPUs."""


class State(t.NamedTuple):
    """MIG mode of a GPU, and the number of MIG devices of each profile."""

    enabled: bool
    devices: t.Mapping[str, int] = {}


class Target(t.NamedTuple):
    """The properties by which a configuration selects a GPU, and its current state."""

    pci_id: str  # "0x20B210DE"
    state: State


def selected(configurations: t.Any, name: str) -> t.List[t.Mapping[str, t.Any]]:
    """The entries of a configuration, checked."""
    if not isinstance(configurations, dict) or configurations.get("version") != "v1":
        raise Invalid("error parsing config file: version must be v1")
    known = configurations.get("mig-configs") or {}
    if name not in known:
        raise Invalid("invalid mig-config: %s. Known names: %s" % (name, ", ".join(sorted(known))))
    entries = known[name] or []
    for entry in entries:
        unknown = sorted(set(entry) - MANAGED_KEYS)
        if unknown:
            raise Invalid("mig-config %s: unexpected field: %s" % (name, ", ".join(unknown)))
        if "devices" not in entry or not isinstance(entry.get("mig-enabled"), bool):
            raise Invalid("mig-config %s: each entry needs devices and mig-enabled" % name)
        if entry["devices"] != "all" and not isinstance(entry["devices"], list):
            raise Invalid("mig-config %s: devices must be 'all' or a list" % name)
        if entry.get("mig-devices") and not entry["mig-enabled"]:
            raise Invalid("mig-config %s: mig-devices without mig-enabled" % name)
    return entries


def wanted(entries: t.Sequence[t.Mapping[str, t.Any]], targets: t.Sequence[Target]) -> t.Dict[int, State]:
    """The desired state of each GPU that an entry names; a later entry overrides an earlier one."""
    found = {}
    for entry in entries:
        filters = entry.get("device-filter") or []
        filters = [filters] if isinstance(filters, str) else filters
        for index, target in enumerate(targets):
            if filters and target.pci_id.lower() not in [each.partition(":")[0].lower() for each in filters]:
                continue
            if entry["devices"] == "all" or index in entry["devices"]:
                devices = {name: count for name, count in (entry.get("mig-devices") or {}).items() if count}
                found[index] = State(entry["mig-enabled"], devices)
    return found


def orders(devices: t.Mapping[str, int]) -> t.Iterable[t.Sequence[str]]:
    """Orders in which to create instances, starting with the largest: not every order fits."""

    def size(name: str) -> int:
        return int(name.partition("g.")[0].rpartition(".")[2])

    names = [each for name, count in devices.items() for each in [name] * count]
    names.sort(key=lambda name: (-size(name), name))
    return dict.fromkeys(itertools.permutations(names))
