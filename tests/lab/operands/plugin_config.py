# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file of the device plugin, GPU feature discovery and the MPS control daemon: settings and sharing."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

from .cluster_api import say
from .resources import Device, Invalid

PREFIX = "nvidia.com/"
SUFFIX = ".shared"
LONGEST = 63  # characters of a resource's name
PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = re.compile(r"%s(\.%s)*" % (PART, PART))
# The file's flags, by the variable with the same effect.
FLAGS = {
    "CDI_ANNOTATION_PREFIX": ("plugin", "cdiAnnotationPrefix"),
    "DEVICE_ID_STRATEGY": ("plugin", "deviceIDStrategy"),
    "DEVICE_LIST_STRATEGY": ("plugin", "deviceListStrategy"),
    "GFD_NO_TIMESTAMP": ("gfd", "noTimestamp"),
    "GFD_SLEEP_INTERVAL": ("gfd", "sleepInterval"),
    "MIG_STRATEGY": ("migStrategy",),
    "MPS_ROOT": ("mpsRoot",),
    "PASS_DEVICE_SPECS": ("plugin", "passDeviceSpecs"),
}


class Replicated(t.NamedTuple):
    name: str
    advertised: str  # the name with the suffix, or the same name
    replicas: int


class Sharing(t.NamedTuple):
    strategy: str = "none"
    resources: t.Sequence[Replicated] = ()
    one_only: bool = False  # a container may request only one replica

    def of(self, resource: str) -> t.Optional[Replicated]:
        return next((each for each in self.resources if each.name == resource), None)


class Config(t.NamedTuple):
    settings: t.Mapping[str, str] = {}  # by variable
    sharing: Sharing = Sharing()
    warnings: t.Sequence[str] = ()


def load(environment: t.Mapping[str, str]) -> Config:
    """The configuration of the file that CONFIG_FILE names. Variables override its flags."""
    path, config = environment.get("CONFIG_FILE"), Config()
    if path:
        try:
            config = parse(Path(path).read_text())
        except OSError as problem:
            raise Invalid("error opening config file: %s" % problem) from problem
    for warning in config.warnings:
        say(warning)
    say("sharing strategy %s %s" % (config.sharing.strategy, list(config.sharing.resources)))
    return config._replace(settings={**config.settings, **environment})


def parse(text: str) -> Config:
    """Unknown keys are ignored, as by the originals."""
    try:
        data = mapping(yaml.safe_load(text), "the file")
    except yaml.YAMLError as problem:
        raise Invalid("error parsing config file: %s" % problem) from problem
    if (data.get("version") or "v1") != "v1":
        raise Invalid("unknown version: %s" % data["version"])
    warnings = ["the field 'resources' is not supported and is ignored"] if data.get("resources") else []
    found = mapping(data.get("sharing"), "sharing")
    sharing = Sharing()
    if "timeSlicing" in found:
        sharing = replicated("time-slicing", found["timeSlicing"], warnings)
    if found.get("mps") is not None:  # has priority
        sharing = replicated("mps", found["mps"], warnings)._replace(one_only=True)
    return Config(flags(mapping(data.get("flags"), "flags")), sharing, tuple(warnings))


def mapping(value: t.Any, what: str) -> t.Dict[str, t.Any]:
    if value is not None and not isinstance(value, dict):
        raise Invalid("%s must be a mapping: %r" % (what, value))
    return value or {}


def flags(given: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    made = {}
    for variable, keys in FLAGS.items():
        value: t.Any = given
        for key in keys:
            value = mapping(value, "flags").get(key)
        if isinstance(value, list):
            value = ",".join(str(each) for each in value)
        if value is not None:
            made[variable] = str(value).lower() if isinstance(value, bool) else str(value)
    return made


def replicated(strategy: str, given: t.Any, warnings: t.List[str]) -> Sharing:
    section = mapping(given, strategy)
    if not section.get("resources"):
        raise Invalid("%s: no resources specified" % strategy)
    for key in ("renameByDefault", "failRequestsGreaterThanOne"):
        if not isinstance(section.get(key, False), bool):
            raise Invalid("%s.%s must be a bool: %r" % (strategy, key, section[key]))
    made = []
    for each in section["resources"]:
        entry = mapping(each, "a resource")
        name, replicas, devices = resource_name(entry.get("name")), entry.get("replicas"), entry.get("devices", "all")
        if replicas is None:
            raise Invalid("no replicas specified")
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise Invalid("the number of replicas must be an integer: %r" % replicas)
        if replicas < 2:
            raise Invalid("number of replicas must be >= 2")
        advertised = name + SUFFIX if section.get("renameByDefault") else name
        if devices != "all":
            warnings.append("the field 'devices' of %s is not supported and is ignored" % name)
        if entry.get("rename", advertised) != advertised:
            warnings.append("the field 'rename' of %s is not supported and is ignored" % name)
        made.append(Replicated(name, advertised, replicas))
    return Sharing(strategy, made, section.get("failRequestsGreaterThanOne", False))


def resource_name(given: t.Any) -> str:
    if not isinstance(given, str):
        raise Invalid("no resource name specified")
    name = given if given.startswith(PREFIX) else PREFIX + given
    if len(name) > LONGEST:
        raise Invalid("fully-qualified resource name must be %d characters or less: %s" % (LONGEST, name))
    if not NAME.fullmatch(name[len(PREFIX) :]):
        raise Invalid("incorrect format for resource name '%s'" % name)
    return name


def shared(offered: t.Mapping[str, t.List[Device]], config: Config) -> t.Dict[str, t.List[Device]]:
    """The resources with replicas of their devices. A later entry for the same resource adds replicas."""
    sharing = config.sharing
    if sharing.strategy == "mps":
        check_mps(offered, config.settings)
    made = {name: devices for name, devices in offered.items() if not sharing.of(name)}
    for each in sharing.resources:
        replicas = [
            device._replace(id="%s::%d" % (device.id, number))
            for device in offered.get(each.name, ())
            for number in range(each.replicas)
        ]
        known = made.get(each.advertised, [])
        if replicas:
            made[each.advertised] = [*known, *(replica for replica in replicas if replica not in known)]
    return made


def check_mps(offered: t.Mapping[str, t.List[Device]], settings: t.Mapping[str, str]) -> None:
    if settings.get("MIG_STRATEGY") == "mixed":
        raise Invalid("using --mig-strategy=mixed is not supported with MPS")
    if not settings.get("MPS_ROOT"):
        raise Invalid("using MPS requires --mps-root to be specified")
    if any(device.id.startswith("MIG-") for devices in offered.values() for device in devices):
        raise Invalid("sharing using MPS is not supported for MIG devices")
