# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Convert the engine's instances to plain data, in the format of the facts."""

from __future__ import annotations

import typing as t

from ...module_utils._mig.model import ComputeInstance, Gpu, GpuInstance, Placement, Profile
from ...module_utils._mig.operations import Created, Kept
from ...module_utils._mig.profile import compute_name

Data = dict[str, t.Any]


def existing(gpu: Gpu, instance: GpuInstance) -> Data:
    """An existing GPU instance, with all its compute instances."""
    profile = gpu.profile(instance.profile_id)
    return _instance(
        profile, instance.id, instance.placement, [_existing_part(profile, ci) for ci in instance.compute_instances]
    )


def after(kept: Kept) -> Data:
    """A GPU instance that is kept, with its compute instances after the change."""
    profile = kept.wanted.profile
    parts = [_existing_part(profile, ci) for ci in kept.instance.compute_instances if ci.id in kept.keep]
    parts.extend(_part(profile, slices, kept.wanted.reduced) for slices in kept.create)
    return _instance(profile, kept.instance.id, kept.instance.placement, parts)


def new(created: Created) -> Data:
    """A GPU instance that does not exist yet."""
    profile = created.wanted.profile
    parts = [_part(profile, slices, created.wanted.reduced) for slices in created.wanted.slices]
    return _instance(profile, None, created.placement, parts)


def _instance(profile: Profile, gi_id: int | None, placement: Placement, parts: list[Data]) -> Data:
    return {
        "id": gi_id,
        "profile": profile.name,
        "start": placement.start,
        "size": placement.size,
        "compute_instances": parts,
    }


def _part(
    profile: Profile, slices: int, reduced: bool = False, ci_id: int | None = None, uuid: str | None = None
) -> Data:
    return {"id": ci_id, "profile": compute_name(profile, slices, reduced), "slices": slices, "uuid": uuid}


def _existing_part(profile: Profile, ci: ComputeInstance) -> Data:
    return _part(profile, ci.slices, ci.reduced, ci.id, ci.uuid)
