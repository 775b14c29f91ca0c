# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Makes and records every write to one GPU, and tracks its resulting state."""

from __future__ import annotations

import typing as t

from . import codes, retry
from .model import ComputeInstance, Gpu, GpuInstance, Placement, Profile
from .operations import CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, RESET, SET_MODE, Operation

if t.TYPE_CHECKING:
    from .backend import Backend, CiProfile

_T = t.TypeVar("_T")


class Retry(t.NamedTuple):
    """A write that failed without effect and was retried."""

    operation: Operation
    error: str


class Journal:
    """Makes writes through the backend, retries transient failures, and records them.

    ``state`` is the GPU as last reported by the driver, updated with the writes since then. ``attempted`` is where
    instances were or may have been created: a call may fail after it took effect.
    """

    def __init__(self, backend: Backend, gpu: Gpu) -> None:
        self.backend = backend
        self.state = gpu
        self.performed: t.List[Operation] = []
        self.retries: t.List[Retry] = []
        self.attempted: t.Set[t.Tuple[Placement, int]] = set()  # placement and profile id of GPU instances
        self.entered: t.Set[Placement] = set()  # GPU instances in which compute instances were created
        self._profiles = {profile.id: profile for profile in gpu.board.profiles}

    def read(self) -> Gpu:
        self.state = retry.read(lambda: self.backend.read(self.state.index))
        return self.state

    def set_mode(self, enabled: bool) -> int:
        """Request the mode; returns the activation status. The state is unknown until the next read."""

        def made(now: Gpu) -> t.Optional[int]:
            if now.mode_current == enabled:
                return codes.SUCCESS
            return codes.RESET_REQUIRED if now.mode_pending == enabled else None

        operation = Operation(SET_MODE, enabled=enabled)
        status = self._write(operation, lambda: self.backend.set_mode(self.state.index, enabled), made)
        self.performed.append(operation)
        return status

    def reset(self) -> None:
        """Reset the GPU, so that the pending mode becomes active."""
        operation = Operation(RESET)
        self._change(
            operation, lambda: self.backend.reset(self.state.index), lambda now: now.mode_current == now.mode_pending
        )
        self.state = self.state._replace(instances=())
        self.performed.append(operation)

    def create_gi(self, profile: Profile, placement: Placement) -> GpuInstance:
        self._profiles[profile.id] = profile
        self.attempted.add((placement, profile.id))

        def made(now: Gpu) -> t.Optional[int]:
            return next(
                (gi.id for gi in now.instances if (gi.placement, gi.profile_id) == (placement, profile.id)), None
            )

        gi_id = self._write(
            Operation(CREATE_GI, profile, placement),
            lambda: self.backend.create_gpu_instance(self.state.index, profile.id, placement),
            made,
        )
        created = GpuInstance(gi_id, profile.id, placement)
        self.state = self.state._replace(instances=(*self._without(gi_id), created))
        self.performed.append(Operation(CREATE_GI, profile, placement, gi_id))
        return created

    def destroy_gi(self, instance: GpuInstance) -> None:
        """Destroy a GPU instance that has no compute instances left."""
        operation = Operation(DESTROY_GI, self._profiles.get(instance.profile_id), instance.placement, instance.id)
        self._change(
            operation,
            lambda: self.backend.destroy_gpu_instance(self.state.index, instance.id),
            lambda now: all(gi.id != instance.id for gi in now.instances),
        )
        self.state = self.state._replace(instances=self._without(instance.id))
        self.performed.append(operation)

    def create_ci(self, instance: GpuInstance, profile: CiProfile, start: t.Optional[int]) -> None:
        self.entered.add(instance.placement)
        operation = Operation(
            CREATE_CI,
            self._profiles.get(instance.profile_id),
            instance.placement,
            instance.id,
            slices=profile.slices,
            reduced=profile.reduced,
        )
        had = _cis(self.state, instance.id)

        def made(now: Gpu) -> t.Optional[int]:
            new = _cis(now, instance.id)
            return next(
                (ci.id for ci in new if ci.profile_id == profile.id and ci.id not in {old.id for old in had}), None
            )

        ci_id = self._write(
            operation,
            lambda: self.backend.create_compute_instance(self.state.index, instance.id, profile.id, start),
            made,
        )
        size = dict(profile.placements).get(start) if start is not None else None
        created = ComputeInstance(
            ci_id,
            profile.id,
            profile.slices,
            Placement(start, size) if start is not None and size is not None else None,
            multiprocessors=profile.multiprocessors,
            reduced=profile.reduced,
        )
        self._replace(instance.id, (*had, created))
        self.performed.append(operation._replace(ci_id=ci_id))

    def destroy_ci(self, instance: GpuInstance, ci_id: int, slices: int) -> None:
        operation = Operation(
            DESTROY_CI,
            self._profiles.get(instance.profile_id),
            instance.placement,
            instance.id,
            ci_id,
            slices,
            reduced=any(ci.reduced for ci in instance.compute_instances if ci.id == ci_id),
        )
        self._change(
            operation,
            lambda: self.backend.destroy_compute_instance(self.state.index, instance.id, ci_id),
            lambda now: all(ci.id != ci_id for ci in _cis(now, instance.id)),
        )
        self._replace(instance.id, tuple(ci for ci in _cis(self.state, instance.id) if ci.id != ci_id))
        self.performed.append(operation)

    def compute_profiles(self, instance: GpuInstance) -> t.Tuple[CiProfile, ...]:
        """The compute instance profiles that a live GPU instance offers."""
        return retry.read(lambda: self.backend.compute_profiles(self.state.index, instance.id))

    def instance(self, placement: Placement) -> GpuInstance:
        """The GPU instance at this placement."""
        for gi in self.state.instances:
            if gi.placement == placement:
                return gi
        raise KeyError(placement)

    def _write(self, operation: Operation, call: t.Callable[[], _T], made: t.Callable[[Gpu], t.Optional[_T]]) -> _T:
        """The result of a write. After a failure ``made`` finds it in the GPU's state; None means it was not made."""
        return retry.write(
            call,
            lambda: made(self.read()),
            lambda error: self.retries.append(Retry(operation, str(error))),
        )

    def _change(self, operation: Operation, call: t.Callable[[], None], made: t.Callable[[Gpu], bool]) -> None:
        """A write that has no result."""

        def called() -> bool:
            call()
            return True

        self._write(operation, called, lambda now: made(now) or None)

    def _without(self, gi_id: int) -> t.Tuple[GpuInstance, ...]:
        return tuple(gi for gi in self.state.instances if gi.id != gi_id)

    def _replace(self, gi_id: int, compute_instances: t.Tuple[ComputeInstance, ...]) -> None:
        self.state = self.state._replace(
            instances=tuple(
                gi._replace(compute_instances=compute_instances) if gi.id == gi_id else gi
                for gi in self.state.instances
            )
        )


def _cis(gpu: Gpu, gi_id: int) -> t.Tuple[ComputeInstance, ...]:
    return next((gi.compute_instances for gi in gpu.instances if gi.id == gi_id), ())
