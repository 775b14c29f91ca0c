# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare a CDI specification with the GPUs and MIG devices of a node.

Devices are recognized by their device nodes, because their names depend on the settings of nvidia-ctk. A container with
a MIG device needs the nodes of the GPU and of two capabilities, those of the GPU instance and of the compute instance:
https://docs.nvidia.com/datacenter/tesla/mig-user-guide, "Device Nodes and Capabilities", read on 2026-11-27.
"""

from __future__ import annotations

import json
import re
import typing as t

if t.TYPE_CHECKING:
    from ..._mig.model import Gpu

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")  # each container with a GPU needs these
_GPU = re.compile(r"/dev/nvidia(\d+)")
_CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap\d+")
_WARNING = re.compile(r"level=warning msg=(?:\"((?:[^\"\\]|\\.)*)\"|(\S+))")
# Containers that compute need device nodes and these libraries. Others are missing on most nodes: graphics, sockets.
_OPTIONAL = re.compile("Could not locate (?!/dev/|libcuda|libnvidia-ml)")


class Specified(t.NamedTuple):
    """The device nodes of a specification: those that all containers get, and those of each device."""

    common: t.FrozenSet[str]
    devices: t.Set[t.FrozenSet[str]]


def parse(text: bytes) -> Specified:
    """Parse a specification in JSON. Raises ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("the specification is not an object")
    return Specified(_nodes(found), {_nodes(device) for device in found.get("devices") or ()})


def _nodes(edited: t.Mapping[str, t.Any]) -> t.FrozenSet[str]:
    return frozenset(node["path"] for node in (edited.get("containerEdits") or {}).get("deviceNodes") or ())


class Missing(t.NamedTuple):
    """What a specification lacks: control nodes, and GPUs or MIG devices with all of their nodes."""

    control: t.List[str]
    devices: t.List[str]
    minors: t.List[int]  # of the GPUs of these devices

    def __str__(self) -> str:
        return ", ".join([*self.control, *self.devices])


NOTHING = Missing([], [], [])


def missing(found: Specified, gpus: t.Sequence[Gpu]) -> Missing:
    """Compare a specification with the GPUs. A GPU whose minor number is unknown is left out."""
    everywhere = found.common.union(*found.devices)
    lacking = Missing([node for node in CONTROL if node not in everywhere], [], [])
    for gpu in gpus:
        if gpu.minor is None:
            continue
        node = "/dev/nvidia%d" % gpu.minor
        own = [nodes for nodes in found.devices if [each for each in nodes if _GPU.fullmatch(each)] == [node]]
        capabilities = [sum(bool(_CAPABILITY.fullmatch(each)) for each in nodes) for nodes in own]
        expected = sum(len(instance.compute_instances) for instance in gpu.instances)
        if not gpu.mode_current and 0 not in capabilities:
            lacking.minors.append(gpu.minor)
            lacking.devices.append("GPU %d (%s, %s)" % (gpu.index, gpu.uuid, node))
        elif gpu.mode_current and capabilities.count(2) < expected:
            lacking.minors.append(gpu.minor)
            lacking.devices.append(
                "%d of %d MIG devices of GPU %d (%s, or their nodes in /dev/nvidia-caps)"
                % (expected - capabilities.count(2), expected, gpu.index, gpu.uuid)
            )
    return lacking


def warnings(log: str) -> t.List[str]:
    """The warnings that nvidia-ctk printed, each once, in one line."""
    found = ((quoted or word).replace("\\n", "; ").replace('\\"', '"') for quoted, word in _WARNING.findall(log))
    return list(dict.fromkeys(found))


def actionable(found: t.Sequence[str]) -> t.List[str]:
    """The warnings about what every container needs, and how many others there are. Empty without the former."""
    needed = [each for each in found if not _OPTIONAL.match(each)]
    others = len(found) - len(needed)
    return [*needed, "%d optional files are missing, too" % others] if needed and others else needed
