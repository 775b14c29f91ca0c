# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which resources a node advertises under each MIG strategy, and what a container gets for them."""

from __future__ import annotations

import collections
import typing as t

from .gpus import Gpu

FULL = "nvidia.com/gpu"
STRATEGIES = ("none", "single", "mixed")
SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CDI_VENDOR = "k8s.device-plugin.nvidia.com"
LIST_STRATEGIES = ("envvar", "cdi-annotations", "cdi-cri")


class Invalid(Exception):
    """The device plugin cannot advertise these GPUs with this configuration."""


class Device(t.NamedTuple):
    id: str  # UUID of the GPU or MIG device; of a replica "UUID::NUMBER"
    nodes: t.Sequence[str]  # device nodes of this device only


class Allocation(t.NamedTuple):
    """What the kubelet passes on to the container runtime."""

    envs: t.Mapping[str, str] = {}
    nodes: t.Sequence[str] = ()
    annotations: t.Mapping[str, str] = {}
    cdi_devices: t.Sequence[str] = ()


Minors = t.Mapping[str, int]  # of /dev/nvidia-caps/nvidia-cap*, by their name in mig-minors: "gpu0/gi1/access"


class Settings(t.NamedTuple):
    strategy: str
    lists: t.Sequence[str]
    pass_nodes: bool
    prefix: str  # of annotations


def settings(environment: t.Mapping[str, str]) -> Settings:
    """The settings in the device plugin's environment variables."""
    lists = [each.strip() for each in environment.get("DEVICE_LIST_STRATEGY", "envvar").split(",")]
    unknown = sorted(set(lists) - set(LIST_STRATEGIES))
    if unknown:
        raise Invalid("invalid device list strategy: %s" % ", ".join(unknown))
    if environment.get("DEVICE_ID_STRATEGY", "uuid") != "uuid":
        raise Invalid("this stand-in supports only DEVICE_ID_STRATEGY=uuid")
    return Settings(
        environment.get("MIG_STRATEGY", "none"),
        lists,
        environment.get("PASS_DEVICE_SPECS", "false").lower() == "true",
        environment.get("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/"),
    )


def mig_resource(profile: str) -> str:
    return "nvidia.com/mig-" + profile.replace("+", ".")


def resources(gpus: t.Sequence[Gpu], strategy: str, minors: Minors) -> t.Dict[str, t.List[Device]]:
    """The devices of each resource."""
    if strategy not in STRATEGIES:
        raise Invalid("unknown MIG strategy: %r. Known strategies: %s" % (strategy, ", ".join(STRATEGIES)))
    found: t.Dict[str, t.List[Device]] = {}
    for gpu in gpus:
        if strategy == "none" or not gpu.mig_enabled:
            found.setdefault(FULL, []).append(Device(gpu.uuid, ["/dev/nvidia%d" % gpu.minor]))
    if strategy == "none":
        return found
    check(gpus, strategy)
    for gpu in gpus:
        for mig in gpu.devices:
            name = FULL if strategy == "single" else mig_resource(mig.profile)
            instance = "gpu%d/gi%d" % (gpu.minor, mig.gi)
            capabilities = ["%s/access" % instance, "%s/ci%d/access" % (instance, mig.ci)]
            nodes = ["/dev/nvidia-caps/nvidia-cap%d" % minors[each] for each in capabilities if each in minors]
            found.setdefault(name, []).append(Device(mig.uuid, ["/dev/nvidia%d" % gpu.minor, *nodes]))
    return found


def check(gpus: t.Sequence[Gpu], strategy: str) -> None:
    """Raise if the strategy does not support the node's MIG devices."""
    enabled = [gpu for gpu in gpus if gpu.mig_enabled]
    profiles = sorted({mig.profile for gpu in enabled for mig in gpu.devices})
    for profile in profiles:
        if profile.partition(".")[0].endswith("c"):
            raise Invalid("MIG profile '%s' does not match any resource patterns" % profile)
    for gpu in enabled:
        if not gpu.devices:
            raise Invalid(
                "invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: %s"
                " has no MIG devices" % gpu.uuid
            )
    if strategy == "single" and len(profiles) > 1:
        raise Invalid("invalid MIG configuration: more than one MIG device type present on node")
    if strategy == "single" and 0 < len(enabled) < len(gpus):
        raise Invalid("all devices on the node must be configured with the same migEnabled value")


def read_minors(text: str) -> t.Dict[str, int]:
    """Parse /proc/driver/nvidia-caps/mig-minors."""
    return {name: int(minor) for name, minor in (line.split() for line in text.splitlines() if line.strip())}


def allocate(
    devices: t.Sequence[Device], strategies: t.Collection[str], pass_nodes: bool, response: str, prefix: str
) -> Allocation:
    """The response for a container; ``response`` makes the annotation's name unique."""
    ids = list(dict.fromkeys(uuid_of(device.id) for device in devices))
    qualified = ["%s/gpu=%s" % (CDI_VENDOR, each) for each in ids]
    envs = {VISIBLE: ",".join(ids)} if "envvar" in strategies else {}
    annotations = {}
    if "cdi-annotations" in strategies:
        annotations["%snvidia-device-plugin_%s" % (prefix, response)] = ",".join(qualified)
    nodes = [*SHARED_NODES, *sorted({node for device in devices for node in device.nodes})] if pass_nodes else ()
    return Allocation(
        envs, nodes=nodes, annotations=annotations, cdi_devices=qualified if "cdi-cri" in strategies else ()
    )


def uuid_of(name: str) -> str:
    return name.partition("::")[0]


def preferred(available: t.Sequence[str], required: t.Sequence[str], size: int) -> t.List[str]:
    """Spread replicas over devices. Devices are equally good, because these GPUs have no links between them."""
    chosen, others = list(required), set(available) - set(required)
    while others and len(chosen) < size:
        free, used = (collections.Counter(uuid_of(each) for each in names) for names in (others, chosen))
        best = min(others, key=lambda each: (-free[uuid_of(each)], used[uuid_of(each)], each))
        chosen.append(best)
        others.remove(best)
    return chosen
