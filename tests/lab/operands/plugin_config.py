# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file of the device plugin and GPU feature discovery: how many replicas share a device.

The originals support more than time-slicing by name and number of replicas. This stand-in exits with anything else.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from .cluster_api import say
from .resources import Device, Invalid

PREFIX = "nvidia.com/"
Replicas = t.Mapping[str, int]  # by name of the resource


def load(environment: t.Mapping[str, str]) -> Replicas:
    """The replicas of the file that CONFIG_FILE names."""
    path = environment.get("CONFIG_FILE")
    try:
        replicas = parse(Path(path).read_text()) if path else {}
    except OSError as problem:
        raise Invalid("error opening config file: %s" % problem) from problem
    say("replicas: %s" % (dict(replicas) or "none"))
    return replicas


def parse(text: str) -> Replicas:
    try:
        data = yaml.safe_load(text)
        if data in (None, {"version": "v1"}):
            return {}
        resources = data["sharing"]["timeSlicing"]["resources"]
        if data == {"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}}:
            return dict(map(replicated, resources))
    except (yaml.YAMLError, KeyError, TypeError) as problem:
        raise Invalid("error parsing config file: %r" % problem) from problem
    raise Invalid("this stand-in supports only sharing.timeSlicing.resources: %s" % text)


def replicated(entry: t.Mapping[str, t.Any]) -> t.Tuple[str, int]:
    name, replicas = str(entry["name"]), entry["replicas"]
    if len(entry) > 2 or not isinstance(replicas, int) or replicas < 2:
        raise Invalid("each resource needs a name and at least 2 replicas, and nothing else: %s" % entry)
    return (name if name.startswith(PREFIX) else PREFIX + name), replicas


def shared(offered: t.Mapping[str, t.List[Device]], replicas: Replicas) -> t.Dict[str, t.List[Device]]:
    """The resources with replicas of their devices."""

    def copies(device: Device, count: int) -> t.List[Device]:
        return [device._replace(id="%s::%d" % (device.id, number)) for number in range(count)]

    made = {
        name: [copy for device in offered[name] for copy in copies(device, count)]
        for name, count in replicas.items()
        if name in offered
    }
    return {**offered, **made}
