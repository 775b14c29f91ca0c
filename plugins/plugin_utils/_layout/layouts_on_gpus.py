# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The instances of GPUs, from facts or from a layout."""

from __future__ import annotations

import typing as t

from ...module_utils._mig import layout as layouts
from ...module_utils._mig.errors import InfeasibleError, LayoutError
from ...module_utils._mig.explain import refusal
from ...module_utils._mig.mig_parted import InstanceSpec
from ...module_utils._mig.model import Gpu, Target
from . import gpus as layout_gpus
from . import products


class Content(t.NamedTuple):
    """One GPU; ``instances`` is None if MIG is off."""

    label: str
    instances: tuple[InstanceSpec, ...] | None


def contents(value: object, gpus: object = None, board: str | None = None) -> dict[int, Content]:
    """GPUs by index, from the facts, or with ``gpus`` as the result of the layout."""
    if gpus is None:
        if not isinstance(value, (list, tuple)) or not all(layout_gpus.is_fact(item) for item in value):
            raise LayoutError("a layout does not list the GPUs of a node: pass them in gpus")
        return {gpu.index: _existing(gpu) for gpu in (layout_gpus.from_either(list(value), board) if value else [])}
    layout = layouts.parse(value)
    known = known_gpus(layout, gpus, board)
    requests = layout.resolve(known)
    out = {}
    for gpu in known:
        request = requests.get(gpu.index)
        out[gpu.index] = _existing(gpu) if request is None else _desired(gpu, request.target(gpu.board))
    return out


def known_gpus(layout: layouts.Layout, gpus: object, board: str | None = None) -> list[Gpu]:
    """The GPUs that a layout is applied to, from facts or board names. Raises LayoutError if its result is unknown."""
    return products.unambiguous_match(layout, layout_gpus.from_either(gpus, board))


def _existing(gpu: Gpu) -> Content:
    if not gpu.mode_current:
        return Content(gpu.label, None)
    instances = []
    for gi in gpu.instances:
        profile = gpu.profile(gi.profile_id)
        slices = tuple(ci.slices for ci in gi.compute_instances)
        instances.append(
            InstanceSpec(profile.name, profile.slices, slices, any(ci.reduced for ci in gi.compute_instances))
        )
    return Content(gpu.label, tuple(instances))


def _desired(gpu: Gpu, target: Target) -> Content:
    if not target.enabled:
        return Content(gpu.label, None)
    why = refusal(gpu.board, target.instances)
    if why is not None:
        raise InfeasibleError("%s: %s" % (gpu.label, why))
    return Content(
        gpu.label,
        tuple(
            InstanceSpec(item.profile.name, item.profile.slices, item.slices, item.reduced) for item in target.instances
        ),
    )
