# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU sharing: the section ``sharing`` of the device plugin's configuration file, and its effect on resources.

Source: api/config/v1 of NVIDIA/k8s-device-plugin 0.20. The device plugin ignores unknown keys and resources.
"""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import short
from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.keys import known_keys
from .._common.refusal import Refusal
from .resources import GPU, SHARED, is_gpu

VARIABLE = "gpu_cluster_sharing"
_MAX_REPLICAS = {
    "timeSlicing": 1000,
    "mps": 48,
}  # replicas: of MPS, the clients of a GPU; of time-slicing, a typing error
_FLAGS = ("renameByDefault", "failRequestsGreaterThanOne")
_KEYS = (*_FLAGS, "resources")


class Unshareable(Refusal):
    """An invalid value of gpu_cluster_sharing, or one that a node does not support."""


class Sharing(t.NamedTuple):
    strategy: str  # timeSlicing or mps
    replicas: t.Mapping[str, int]  # by resource
    renamed: bool = False


def parse(value: object) -> Sharing | None:
    """A node's sharing; None if its GPUs are not shared. Raises Unshareable."""
    try:
        return _parse(value)
    except LayoutError as error:
        raise Unshareable(str(error)) from None


def _parse(value: object) -> Sharing | None:
    if value is None or value == {}:
        return None
    known_keys(_mapping(value, VARIABLE), tuple(_MAX_REPLICAS), VARIABLE)
    sections = _mapping(value, VARIABLE)
    if len(sections) != 1:
        raise Unshareable("%s has timeSlicing and mps, which the device plugin cannot combine: give one" % VARIABLE)
    ((strategy, section),) = sections.items()
    where = "%s.%s" % (VARIABLE, strategy)
    known_keys(_mapping(section, where), _KEYS, where)
    options = _mapping(section, where)
    for name in _FLAGS:
        if not isinstance(options.get(name, False), bool):
            raise Unshareable("%s.%s is %s: give true or false" % (where, name, short(options[name])))
    resources = options.get("resources")
    if not isinstance(resources, (list, tuple)) or not resources:
        raise Unshareable("%s.resources is %s: list resources with name and replicas" % (where, short(resources)))
    replicas: dict[str, int] = {}
    for number, each in enumerate(resources):
        name, count = _resource(each, "%s.resources[%d]" % (where, number), _MAX_REPLICAS[strategy])
        if name in replicas:
            raise Unshareable("%s.resources has %s twice: remove one" % (where, name))
        replicas[name] = count
    return Sharing(strategy, replicas, bool(options.get("renameByDefault")))


def _mapping(value: object, where: str) -> dict[str, t.Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Unshareable(
            "%s is %s: give a mapping, as in the device plugin's configuration file" % (where, short(value))
        )
    return value


def _resource(value: object, where: str, most: int) -> tuple[str, int]:
    found = _mapping(value, where)
    known_keys(found, ("name", "replicas"), where)
    name, count = found.get("name"), found.get("replicas")
    if not isinstance(name, str) or not is_gpu(name):
        raise Unshareable("%s.name is %s: give a resource such as %s" % (where, short(name), GPU))
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= most:
        raise Unshareable("%s.replicas is %s: give a number from 2 to %d" % (where, short(count), most))
    return name, count


def advertised(resources: t.Mapping[str, int], sharing: Sharing | None, strategy: str, mig: bool) -> dict[str, int]:
    """The resources of a node with this sharing. Raises Unshareable.

    ``resources`` are those without sharing, under the MIG strategy. ``mig`` is whether any GPU has MIG enabled.
    """
    if sharing is None:
        return dict(resources)
    if sharing.strategy == "mps" and mig:
        raise Unshareable(
            "%s.mps: NVIDIA does not support MPS on nodes with MIG devices: use timeSlicing, or disable MIG on all "
            "GPUs of the node" % VARIABLE
        )
    if sharing.strategy == "mps" and strategy == "mixed":
        raise Unshareable(
            "%s.mps: with the MIG strategy mixed, the device plugin exits if GPUs are shared with MPS: use the strategy "
            "none or single for the cluster, or timeSlicing" % VARIABLE
        )
    out: dict[str, int] = {}
    for name, count in resources.items():
        shared = name in sharing.replicas
        out[name + (SHARED if shared and sharing.renamed else "")] = count * sharing.replicas.get(name, 1)
    return dict(sorted(out.items()))


def unused(resources: t.Iterable[str], sharing: Sharing | None) -> str:
    """What is to be shared that the node does not advertise, as a sentence without a full stop; empty if there is nothing.

    The device plugin ignores it, so that nodes with different layouts can have one configuration.
    """
    unknown = sorted(set(sharing.replicas) - set(resources)) if sharing else []
    if not unknown:
        return ""
    return "%s shares %s, which the node does not advertise: it has %s" % (
        VARIABLE,
        ", ".join(unknown),
        ", ".join(sorted(resources)) or "no GPUs",
    )


def uses_mps(value: object) -> bool:
    return isinstance(value, dict) and value.get("mps") is not None


def replicas(sharing: Sharing | None) -> dict[str, int]:
    """How many pods get one device at the same time, by the name of the resource that they request."""
    if sharing is None:
        return {}
    suffix = SHARED if sharing.renamed else ""
    return {name + suffix: count for name, count in sharing.replicas.items()}
