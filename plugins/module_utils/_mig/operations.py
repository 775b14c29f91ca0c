# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plans: the ordered operations, and the instances that they keep, destroy and create."""

from __future__ import annotations

import typing as t

from .model import DesiredInstance, Gpu, GpuInstance, Placement, Process, Profile, Target

# Kinds of operation, as they appear in results and diffs.
SET_MODE = "set_mode"
DESTROY_CI = "destroy_compute_instance"
DESTROY_GI = "destroy_gpu_instance"
CREATE_GI = "create_gpu_instance"
CREATE_CI = "create_compute_instance"
RESET = "reset"


class Operation(t.NamedTuple):
    """One write to one GPU.

    Instances are identified by ``placement``, which is unique on a GPU and known before
    the driver assigns the id of a new GPU instance; ``gi_id`` is set if the instance
    already exists.
    """

    kind: str
    profile: t.Optional[Profile] = None  # of the GPU instance; None for SET_MODE and RESET
    placement: t.Optional[Placement] = None
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None  # DESTROY_CI only
    slices: t.Optional[int] = None  # CREATE_CI, DESTROY_CI: compute slices
    enabled: t.Optional[bool] = None  # SET_MODE only
    reduced: bool = False  # CREATE_CI, DESTROY_CI: as of a compute instance


class Kept(t.NamedTuple):
    """A GPU instance that is kept, and the changes to its compute instances."""

    instance: GpuInstance
    desired: DesiredInstance
    keep: t.Tuple[int, ...]  # ids of compute instances to keep
    destroy: t.Tuple[int, ...]  # ids of compute instances to destroy
    create: t.Tuple[int, ...]  # slice counts of compute instances to create, descending


class Created(t.NamedTuple):
    """A GPU instance to create, and its placement."""

    desired: DesiredInstance
    placement: Placement


class Blocked(t.NamedTuple):
    """Why a MIG mode change does not become active in this run. The GPU keeps its instances."""

    reason: str
    clients: t.Tuple[Process, ...] = ()  # processes that block it, if the driver lists them
    reboot: bool = False  # the GPU cannot be reset: only a reboot of the node activates the change


class Plan(t.NamedTuple):
    """The change of one GPU from its current state to its target.

    ``mode_first`` marks a GPU whose driver lists its profiles only while MIG mode is on: the plan
    then contains only the mode change, and its target no instances; the rest is planned later.

    ``blocked`` marks a mode change that does not become active in this run: the plan then
    has no operations.
    """

    gpu: Gpu
    target: Target
    set_mode: t.Optional[bool] = None
    reset: bool = False  # the mode change is already pending, and a reset activates it
    kept: t.Tuple[Kept, ...] = ()
    destroyed: t.Tuple[GpuInstance, ...] = ()
    created: t.Tuple[Created, ...] = ()
    mode_first: bool = False
    blocked: t.Optional[Blocked] = None

    @property
    def operations(self) -> t.Tuple[Operation, ...]:
        """The writes in order.

        Everything is destroyed before anything is created, and the mode changes in between:
        on before the first creation, off after the last destruction. A planned reset removes
        the instances itself, so that none is lost if the reset is refused.
        """
        out: t.List[Operation] = []
        for kept in self.kept:
            out.extend(_destroy_cis(self.gpu, kept.instance, kept.destroy))
        for gone in () if self.reset else self.destroyed:
            out.extend(_destroy_cis(self.gpu, gone, tuple(ci.id for ci in gone.compute_instances)))
            out.append(Operation(DESTROY_GI, self.gpu.profile(gone.profile_id), gone.placement, gone.id))
        if self.set_mode is not None:
            out.append(Operation(SET_MODE, enabled=self.set_mode))
        if self.reset:
            out.append(Operation(RESET))
        for kept in self.kept:
            for slices in kept.create:
                out.append(_create_ci(kept.desired, kept.instance.placement, slices, kept.instance.id))
        for new in self.created:
            out.append(Operation(CREATE_GI, new.desired.profile, new.placement))
            for slices in new.desired.slices:
                out.append(_create_ci(new.desired, new.placement, slices))
        return tuple(out)

    @property
    def mode_only(self) -> bool:
        """Whether the plan changes at most the mode, and does not reach its target."""
        return self.mode_first or self.blocked is not None

    @property
    def changes(self) -> bool:
        return bool(self.operations)


def _create_ci(desired: DesiredInstance, placement: Placement, slices: int, gi_id: t.Optional[int] = None) -> Operation:
    return Operation(CREATE_CI, desired.profile, placement, gi_id, slices=slices, reduced=desired.reduced)


def _destroy_cis(gpu: Gpu, instance: GpuInstance, ids: t.Tuple[int, ...]) -> t.Iterator[Operation]:
    for ci in instance.compute_instances:
        if ci.id in ids:
            profile = gpu.profile(instance.profile_id)
            yield Operation(DESTROY_CI, profile, instance.placement, instance.id, ci.id, ci.slices, reduced=ci.reduced)
