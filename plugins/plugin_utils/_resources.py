# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Resources that the NVIDIA device plugin advertises for a node's GPUs, by MIG strategy."""

from __future__ import annotations

import typing as t
from collections import Counter

from ..module_utils._mig.errors import LayoutError
from ..module_utils._mig.mig_parted import Held
from ..module_utils._mig.profile import resource_name
from ._content import Content

GPU = "nvidia.com/gpu"
STRATEGIES = ("none", "single", "mixed")


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
        split = [name for held in content.held or () for name in _parts(held) if name != held.profile]
        if split:
            raise StrategyError(
                "with the strategy mixed, the NVIDIA device plugin exits if a compute instance does not use its whole "
                "GPU instance, and the node advertises no resources: %s on %s; use whole GPU instances"
                % (split[0], content.label)
            )
        if content.held is None:
            out[GPU] += 1
        else:
            out.update(resource_name(name) for name in devices(content))
    return out


def _single(gpus: t.Mapping[int, Content]) -> Counter[str]:
    """The device plugin advertises no resources at all if any GPU differs."""
    remedy = "use the same layout on all GPUs, or use the strategy mixed"
    off = [content for content in gpus.values() if content.held is None]
    on = [content for content in gpus.values() if content.held is not None]
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
    return [name for held in content.held or () for name in _parts(held)]


def _parts(held: Held) -> list[str]:
    """The compute instances of a GPU instance, by name."""
    return [
        held.profile if slices == held.slices else "%dc.%s" % (slices, held.profile)
        for slices in held.compute_instances
    ]
