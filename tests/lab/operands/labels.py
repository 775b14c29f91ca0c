# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of GPU feature discovery 0.20."""

from __future__ import annotations

import re
import typing as t

from .gpus import Gpu, Inventory, MigDevice
from .plugin_config import Replicas
from .resources import FULL, mig_resource

Labels = t.Dict[str, str]
FAMILIES = {5: "maxwell", 6: "pascal", 9: "hopper", 10: "blackwell", 12: "blackwell"}
MODES = {"0x030000": "graphics", "0x030200": "compute"}


def labels(
    inventory: Inventory, strategy: str, machine: str, pci_classes: t.Collection[str], replicas: Replicas
) -> Labels:
    """All labels except the timestamp."""
    if not inventory.gpus:
        return {}
    found = versions(inventory)
    found["nvidia.com/gpu.machine"] = sanitised(machine)
    found["nvidia.com/gpu.mode"] = MODES.get(next(iter(pci_classes)), "unknown") if len(pci_classes) == 1 else "unknown"
    found["nvidia.com/mig.capable"] = "true" if any(gpu.mig_capable for gpu in inventory.gpus) else "false"
    found["nvidia.com/mps.capable"] = "false"
    found.update(whole_gpus(inventory.gpus, replicas))
    if strategy != "none":
        found["nvidia.com/mig.strategy"] = strategy
        found.update((single if strategy == "single" else mixed)(inventory.gpus, replicas))
    return found


def versions(inventory: Inventory) -> Labels:
    major, minor, revision = [*inventory.driver.split("."), "", ""][:3]
    runtime = ["%d" % part for part in inventory.cuda]
    found = {}
    for name, value in (("major", major), ("minor", minor), ("rev", revision)):
        found["nvidia.com/cuda.driver." + name] = value
    for name, value in (("major", major), ("minor", minor), ("revision", revision), ("full", inventory.driver)):
        found["nvidia.com/cuda.driver-version." + name] = value
    for name, value in (("major", runtime[0]), ("minor", runtime[1])):
        found["nvidia.com/cuda.runtime." + name] = value
        found["nvidia.com/cuda.runtime-version." + name] = value
    found["nvidia.com/cuda.runtime-version.full"] = ".".join(runtime)
    return found


def sanitised(text: str) -> str:
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", text).split())


def base(resource: str, product: str, count: int, replicas: t.Optional[Replicas]) -> Labels:
    """The labels of a resource, which has no replicas if it cannot be shared."""
    values = {"product": product, "count": count, "replicas": 0 if replicas is None else 1, "sharing-strategy": "none"}
    if replicas and resource in replicas:
        values.update(
            {"product": product + "-SHARED", "replicas": replicas[resource], "sharing-strategy": "time-slicing"}
        )
    return {"%s.%s" % (resource, name): str(value) for name, value in values.items()}


def whole_gpus(gpus: t.Sequence[Gpu], replicas: Replicas) -> Labels:
    """Of several models, one without MIG mode wins. GPUs in MIG mode cannot be shared, so they have no replicas."""
    found: Labels = {}
    for gpu in sorted(gpus, key=lambda each: not each.mig_enabled):
        count = sum(each.name == gpu.name for each in gpus)
        found.update(base(FULL, sanitised(gpu.name), count, None if gpu.mig_enabled else replicas))
        found[FULL + ".memory"] = str(gpu.memory)
        found[FULL + ".family"] = family(*gpu.capability)
        found[FULL + ".compute.major"], found[FULL + ".compute.minor"] = (str(part) for part in gpu.capability)
    return found


def family(major: int, minor: int) -> str:
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return FAMILIES.get(major, "undefined")


def mig_labels(resource: str, gpu: Gpu, mig: MigDevice, count: int, replicas: Replicas) -> Labels:
    product = "-".join((sanitised(gpu.name), "MIG", sanitised(mig.profile)))
    found = base(resource, product, count, replicas)
    found.update({"%s.%s" % (resource, name): str(value) for name, value in mig.attributes.items()})
    return found


def by_profile(gpus: t.Sequence[Gpu]) -> t.Dict[str, t.List[t.Tuple[Gpu, MigDevice]]]:
    found: t.Dict[str, t.List[t.Tuple[Gpu, MigDevice]]] = {}
    for gpu in gpus:
        for mig in gpu.devices:
            found.setdefault(mig.profile, []).append((gpu, mig))
    return found


def single(gpus: t.Sequence[Gpu], replicas: Replicas) -> Labels:
    enabled = [gpu for gpu in gpus if gpu.mig_enabled]
    if not enabled:
        return {}
    profiles = by_profile(gpus)
    if len(profiles) != 1 or len(enabled) < len(gpus) or any(not gpu.devices for gpu in enabled):
        values = {"product": sanitised(enabled[0].name) + "-MIG-INVALID", "count": "0", "replicas": "0", "memory": "0"}
        return {"%s.%s" % (FULL, name): value for name, value in values.items()}
    devices = next(iter(profiles.values()))
    return mig_labels(FULL, *devices[0], len(devices), replicas)


def mixed(gpus: t.Sequence[Gpu], replicas: Replicas) -> Labels:
    found: Labels = {}
    for profile, devices in by_profile(gpus).items():
        found.update(mig_labels(mig_resource(profile), *devices[0], len(devices), replicas))
    return found
