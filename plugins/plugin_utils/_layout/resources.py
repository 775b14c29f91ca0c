# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Resources that the NVIDIA device plugin advertises for a node's GPUs, by MIG strategy."""

from __future__ import annotations

import math
import re
import typing as t
from collections import Counter
from decimal import Decimal

from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.mig_parted import InstanceSpec
from ...module_utils._mig.profile import resource_name
from .layouts_on_gpus import Content

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"  # followed by a profile
SHARED = ".shared"  # suffix of resources that are renamed because they are shared
STRATEGIES = ("none", "single", "mixed")
_QUANTITY = re.compile(r"([+-]?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?)(|[numkMGTPE]|[KMGTPE]i)")
_UNITS = {
    **{"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{unit + "i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def is_gpu(resource: str) -> bool:
    """Whether an extended resource is GPUs or MIG devices.

    Others share the prefix: of the network operator 25.7 (nvidia.com/hostdev; its users choose the names), and of HAMi,
    which counts memory and cores beside the GPUs (nvidia.com/gpumem).
    """
    return resource in (GPU, GPU + SHARED) or resource.startswith(MIG)


def counts(quantities: t.Mapping[str, object] | None) -> Counter[str]:
    """The GPUs and MIG devices in a list of resources of the API, such as the limits of a container, by resource.

    Other resources are not parsed: their quantities may be of another kind, such as bytes.
    """
    return Counter({name: count(found) for name, found in (quantities or {}).items() if is_gpu(name)})


def count(quantity: object) -> int:
    """Parse a quantity of the API, such as 7, 1k or 1e3; fractions are rounded up.

    As kubernetes.utils.parse_quantity, which is installed only where the API is used, possibly not on the controller.
    """
    found = _QUANTITY.fullmatch(str(quantity))
    if not found:
        raise ValueError("%.60r is not a quantity of the Kubernetes API" % (quantity,))
    return math.ceil(Decimal(found.group(1)) * _UNITS[found.group(2)])


class StrategyError(LayoutError):
    """The device plugin does not start, or advertises nothing, with this strategy on a node with this layout."""


def resources(gpus: t.Mapping[int, Content], strategy: str) -> dict[str, int]:
    """Resources and their counts, sorted, without counts of zero."""
    if strategy not in STRATEGIES:
        raise LayoutError("unknown MIG strategy %.60r: use one of %s" % (strategy, ", ".join(STRATEGIES)))
    if strategy == "none":
        found = Counter({GPU: len(gpus)})
    elif strategy == "mixed":
        found = _mixed(gpus)
    else:
        found = _single(gpus)
    return {name: found[name] for name in sorted(found) if found[name]}


def _mixed(gpus: t.Mapping[int, Content]) -> Counter[str]:
    out: Counter[str] = Counter()
    for content in gpus.values():
        split = [name for each in content.instances or () for name in _parts(each) if name != each.profile]
        if split:
            raise StrategyError(
                "with the strategy mixed, the NVIDIA device plugin exits if a compute instance does not use its whole "
                "GPU instance, and the node advertises no resources: %s on %s; use whole GPU instances"
                % (split[0], content.label)
            )
        if content.instances is None:
            out[GPU] += 1
        else:
            out.update(resource_name(name) for name in devices(content))
    return out


def _single(gpus: t.Mapping[int, Content]) -> Counter[str]:
    """The device plugin advertises no resources at all if any GPU differs."""
    remedy = "use the same layout on all GPUs, or use the strategy mixed"
    off = [content for content in gpus.values() if content.instances is None]
    on = [content for content in gpus.values() if content.instances is not None]
    if not on:
        return Counter({GPU: len(off)})
    if off:
        raise StrategyError(
            "the strategy single needs MIG on or off on every GPU, but it is on for %s and off for %s: %s"
            % (on[0].label, off[0].label, remedy)
        )
    first: tuple[str, str] | None = None
    total = 0
    for content in on:
        names = devices(content)
        if not names:
            raise StrategyError(
                "the strategy single needs MIG devices on every GPU, but %s has none: %s" % (content.label, remedy)
            )
        for name in names:
            first = first or (name, content.label)
            if name != first[0]:
                raise StrategyError(
                    "the strategy single needs MIG devices of one profile on the whole node, but found %s on %s "
                    "and %s on %s: %s" % (first[0], first[1], name, content.label, remedy)
                )
        total += len(names)
    return Counter({GPU: total})


def devices(content: Content) -> list[str]:
    """The MIG devices of a GPU, by name."""
    return [name for each in content.instances or () for name in _parts(each)]


def _parts(instance: InstanceSpec) -> list[str]:
    """The compute instances of a GPU instance, by name."""
    return [
        instance.profile if slices == instance.slices else "%dc.%s" % (slices, instance.profile)
        for slices in instance.compute_instances
    ]
