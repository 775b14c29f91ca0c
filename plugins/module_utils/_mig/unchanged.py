# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Detect a GPU that already matches its target, so that a run without changes does not load the planner."""

from __future__ import annotations

import typing as t

from .operations import Kept, Plan

if t.TYPE_CHECKING:
    from .model import Gpu, GpuInstance, Target, Wanted


def unchanged(gpu: Gpu, target: Target) -> t.Optional[Plan]:
    """The plan that keeps everything, equal to what ``plan`` returns; None if anything differs from the target."""
    if bool(gpu.mode_current) != target.enabled or gpu.mode_current != gpu.mode_pending:
        return None
    missing = sorted(target.instances, key=lambda wanted: wanted.start is None)  # pinned before unpinned
    kept: t.List[Kept] = []
    for instance in sorted(gpu.instances, key=lambda gi: gi.placement):
        match = next((wanted for wanted in missing if _matches(instance, wanted)), None)
        if match is None:
            return None
        missing.remove(match)
        kept.append(Kept(instance, match, tuple(sorted(ci.id for ci in instance.compute_instances)), (), ()))
    return None if missing else Plan(gpu, target, kept=tuple(kept))


def _matches(instance: GpuInstance, wanted: Wanted) -> bool:
    return (
        instance.profile_id == wanted.profile.id
        and wanted.start in (None, instance.placement.start)
        and sorted(ci.slices for ci in instance.compute_instances) == sorted(wanted.slices)
        and all(ci.reduced == wanted.reduced for ci in instance.compute_instances)
    )
