# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Every write to one GPU, and what the GPU must look like after it."""

from __future__ import annotations

import typing as t

from .model import ComputeInstance, Gpu, GpuInstance, Placement, Profile
from .operations import CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, RESET, SET_MODE, Operation

if t.TYPE_CHECKING:
    from .._driver.base import CiProfile, Driver

Progress = t.Callable[[Gpu, Operation], None]


class Journal:
    """Makes writes through the driver and remembers them.

    ``state`` is the GPU as the driver last told it, or as the writes since then must have
    left it. ``attempted`` is where something was created or meant to be created: a call
    may fail after it took effect.
    """

    def __init__(self, driver: Driver, gpu: Gpu, progress: t.Optional[Progress] = None) -> None:
        self.driver = driver
        self.state = gpu
        self.performed: t.List[Operation] = []
        self.attempted: t.Set[t.Tuple[Placement, int]] = set()  # placement and profile id of GPU instances
        self.entered: t.Set[Placement] = set()  # GPU instances in which compute instances were created
        self._progress = progress
        self._profiles = {profile.id: profile for profile in gpu.board.profiles}

    def read(self) -> Gpu:
        self.state = self.driver.read(self.state.index)
        return self.state

    def set_mode(self, enabled: bool) -> int:
        """Returns the activation status; the state is unknown until the next read."""
        status = self.driver.set_mode(self.state.index, enabled)
        self._done(Operation(SET_MODE, enabled=enabled))
        return status

    def reset(self) -> None:
        self.driver.reset(self.state.index)
        self.state = self.state._replace(instances=())
        self._done(Operation(RESET))

    def create_gi(self, profile: Profile, placement: Placement) -> GpuInstance:
        self._profiles[profile.id] = profile
        self.attempted.add((placement, profile.id))
        gi_id = self.driver.create_gpu_instance(self.state.index, profile.id, placement)
        created = GpuInstance(gi_id, profile.id, placement)
        self.state = self.state._replace(instances=self.state.instances + (created,))
        self._done(Operation(CREATE_GI, profile, placement, gi_id))
        return created

    def destroy_gi(self, instance: GpuInstance) -> None:
        """Destroy a GPU instance that has no compute instances left."""
        self.driver.destroy_gpu_instance(self.state.index, instance.id)
        left = tuple(gi for gi in self.state.instances if gi.id != instance.id)
        self.state = self.state._replace(instances=left)
        self._done(Operation(DESTROY_GI, self._profiles.get(instance.profile_id), instance.placement, instance.id))

    def create_ci(self, instance: GpuInstance, profile: CiProfile, start: t.Optional[int]) -> None:
        self.entered.add(instance.placement)
        ci_id = self.driver.create_compute_instance(self.state.index, instance.id, profile.id, start)
        size = dict(profile.placements).get(start) if start is not None else None
        created = ComputeInstance(
            ci_id,
            profile.id,
            profile.slices,
            Placement(start, size) if start is not None and size is not None else None,
            multiprocessors=profile.multiprocessors,
            reduced=profile.reduced,
        )
        self._replace(instance.id, lambda gi: gi.compute_instances + (created,))
        self._done(
            Operation(
                CREATE_CI,
                self._profiles.get(instance.profile_id),
                instance.placement,
                instance.id,
                ci_id,
                profile.slices,
                reduced=profile.reduced,
            )
        )

    def destroy_ci(self, instance: GpuInstance, ci_id: int, slices: int) -> None:
        self.driver.destroy_compute_instance(self.state.index, instance.id, ci_id)
        reduced = any(ci.reduced for ci in instance.compute_instances if ci.id == ci_id)
        self._replace(instance.id, lambda gi: tuple(ci for ci in gi.compute_instances if ci.id != ci_id))
        self._done(
            Operation(
                DESTROY_CI,
                self._profiles.get(instance.profile_id),
                instance.placement,
                instance.id,
                ci_id,
                slices,
                reduced=reduced,
            )
        )

    def instance(self, placement: Placement) -> GpuInstance:
        """The GPU instance that lies there now."""
        for gi in self.state.instances:
            if gi.placement == placement:
                return gi
        raise KeyError(placement)

    def _replace(self, gi_id: int, inside: t.Callable[[GpuInstance], t.Tuple[ComputeInstance, ...]]) -> None:
        self.state = self.state._replace(
            instances=tuple(
                gi._replace(compute_instances=inside(gi)) if gi.id == gi_id else gi for gi in self.state.instances
            )
        )

    def _done(self, operation: Operation) -> None:
        self.performed.append(operation)
        if self._progress is not None:
            self._progress(self.state, operation)
