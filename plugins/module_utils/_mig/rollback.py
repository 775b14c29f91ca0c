# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Restore the previous state of a GPU after a failure.

The steps follow from the current state of the GPU, not from the call that failed: a call may
fail after it took effect. Only instances that this run created are removed, and only instances
that it destroyed are recreated.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from .._common.text import listed
from . import messages
from .backend import BackendError
from .mode import on_off
from .model import ComputeInstance, Gpu, GpuInstance, Placement

if t.TYPE_CHECKING:
    from .backend import CiProfile
    from .journal import Journal


_ROUNDS = 3


class Restored(t.NamedTuple):
    """The state of the GPU after the rollback, and descriptions of the differences from before (empty: none)."""

    seen: t.Optional[Gpu]  # the state before the rollback; None if it could not be read
    after: Gpu
    read: bool  # False: the GPU could not be read afterwards, and ``after`` is the state in the journal
    missing: t.Tuple[str, ...]
    new_uuids: t.Tuple[str, ...]  # of MIG devices that had another UUID before


def restore(journal: Journal, before: Gpu, reset: bool, keep_mode: bool = False) -> Restored:
    """Restore the state ``before``. ``reset`` allows a reset if the mode needs it and the GPU is idle.

    With ``keep_mode``, a requested mode change is not reverted.
    """
    return _Restoration(journal, before, reset, keep_mode).run()


class _Restoration:
    """Continues after a failed step, to restore as many instances as possible."""

    def __init__(self, journal: Journal, before: Gpu, reset: bool, keep_mode: bool) -> None:
        self._journal = journal
        self._before = before
        self._reset_allowed = reset
        self._keep_mode = keep_mode
        self._errors: t.List[str] = []
        self._waited = False  # the last read timed out after a long time

    def run(self) -> Restored:
        seen = now = self._read()
        for _round in range(_ROUNDS):
            known = now is not None  # otherwise the round uses the state in the journal, and may miss something
            self._undo()
            now = self._read()
            missing = differences(self._before, self._journal.state)
            if self._waited or (now is not None and (known or not missing)):
                break
        if now is None:
            missing.append("the GPU could not be read afterwards")
        if missing and self._errors:
            missing.append(listed(list(dict.fromkeys(self._errors)), "; ", 3))
        after = self._journal.state
        return Restored(seen, after, now is not None, tuple(missing), _new_uuids(self._before, after))

    def _undo(self) -> None:
        self._remove()
        if self._keep_mode:
            self._before = self._before._replace(mode_pending=self._journal.state.mode_pending)
        else:
            self._switch_back()
        self._recreate()

    def _read(self) -> t.Optional[Gpu]:
        self._waited = False
        try:
            return self._journal.read()
        except Exception as error:
            self._errors.append(_text(error))
            self._waited = isinstance(error, BackendError) and error.waited
            return None

    def _remove(self) -> None:
        """Remove the instances that this run created and that did not exist before."""
        had = {(gi.placement, gi.profile_id): gi for gi in self._before.instances}
        for gi in self._journal.state.instances:
            key = (gi.placement, gi.profile_id)
            if key in had:
                if gi.placement in self._journal.entered:
                    self._try(self._destroy_cis, gi, _extra(gi, had[key]))
            elif key in self._journal.attempted:
                self._try(self._destroy_gi, gi)

    def _switch_back(self) -> None:
        now, before = self._journal.state, self._before
        if now.mode_current == before.mode_current and now.mode_pending == before.mode_pending:
            return
        # If the mode itself is restored, a change that was pending before is only requested again.
        requested = before.mode_pending if now.mode_current == before.mode_current else before.mode_current
        if requested is None:
            return
        self._try(self._journal.set_mode, requested)
        seen = self._read()
        if seen is None or seen.mode_current == requested or seen.mode_pending != requested:
            return
        if self._reset_allowed and not seen.processes and not seen.instances:
            self._try(self._journal.reset)
            self._read()

    def _recreate(self) -> None:
        """Recreate missing instances in the old order, so that the driver assigns the same ids and UUIDs."""
        for old in sorted(self._before.instances, key=lambda gi: gi.id):
            self._try(self._recreate_one, old)

    def _recreate_one(self, old: GpuInstance) -> None:
        same = [
            gi
            for gi in self._journal.state.instances
            if (gi.placement, gi.profile_id) == (old.placement, old.profile_id)
        ]
        if same:
            now = same[0]
        elif self._journal.state.mode_current:
            now = self._journal.create_gi(self._before.profile(old.profile_id), old.placement)
        else:
            return
        lost = _extra(old, now)
        if lost:
            offered = {profile.id: profile for profile in self._journal.compute_profiles(now)}
            for ci in lost:
                self._try(self._recreate_ci, now, ci, offered)

    def _recreate_ci(self, gi: GpuInstance, ci: ComputeInstance, offered: t.Mapping[int, CiProfile]) -> None:
        profile = offered[ci.profile_id]
        known = ci.placement is not None and tuple(ci.placement) in profile.placements
        self._journal.create_ci(gi, profile, ci.placement.start if known and ci.placement else None)

    def _destroy_cis(self, gi: GpuInstance, cis: t.Sequence[ComputeInstance]) -> None:
        for ci in cis:
            self._journal.destroy_ci(gi, ci.id, ci.slices)

    def _destroy_gi(self, gi: GpuInstance) -> None:
        self._destroy_cis(gi, gi.compute_instances)
        self._journal.destroy_gi(gi)

    def _try(self, step: t.Callable[..., t.Any], *args: t.Any) -> None:
        try:
            step(*args)
        except Exception as error:  # even an internal error must not prevent restoring the rest
            self._errors.append(_text(error))


def differences(before: Gpu, after: Gpu) -> t.List[str]:
    """Descriptions of what a GPU lacks compared to before, and what is new."""
    out: t.List[str] = []
    was, now = shape(before), shape(after)
    out.extend("missing: %s" % text for text in _texts(before, was - now))
    out.extend("new: %s" % text for text in _texts(after, now - was))
    if before.mode_current != after.mode_current:
        out.append("MIG mode is %s" % on_off(after.mode_current))
    if before.mode_pending != after.mode_pending or after.mode_pending == before.mode_current != after.mode_current:
        out.append("MIG mode will be %s after the next reset or reboot" % on_off(after.mode_pending))
    return out


def shape(gpu: Gpu) -> t.Counter[t.Tuple[int, Placement, t.Tuple[t.Any, ...]]]:
    """The instances without their ids, for comparison: profile, placement and compute instances."""
    return Counter(
        (
            gi.profile_id,
            gi.placement,
            tuple(sorted(_ci_shape(ci.profile_id, ci.placement) for ci in gi.compute_instances)),
        )
        for gi in gpu.instances
    )


def _ci_shape(profile_id: int, placement: t.Optional[Placement]) -> t.Tuple[int, int, int]:
    return (profile_id, placement.start, placement.size) if placement else (profile_id, -1, -1)


def _texts(gpu: Gpu, shapes: t.Counter[t.Any]) -> t.List[str]:
    return [
        messages.gpu_instance(gpu, gi)
        for gi in gpu.instances
        if any(key in shapes for key in shape(gpu._replace(instances=(gi,))))
    ]


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, BackendError) else "internal error: %r" % error


def _extra(gi: GpuInstance, than: GpuInstance) -> t.List[ComputeInstance]:
    """Compute instances of ``gi`` that ``than`` lacks, in order of id."""
    left = list(than.compute_instances)
    extra = []
    for ci in sorted(gi.compute_instances, key=lambda ci: ci.id):
        twin = _twin(ci, left)
        if twin is None:
            extra.append(ci)
        else:
            left.remove(twin)
    return extra


def _twin(ci: ComputeInstance, among: t.Sequence[ComputeInstance]) -> t.Optional[ComputeInstance]:
    for other in among:
        same_place = ci.placement == other.placement or ci.placement is None or other.placement is None
        if other.profile_id == ci.profile_id and same_place:
            return other
    return None


def _new_uuids(before: Gpu, after: Gpu) -> t.Tuple[str, ...]:
    def uuids(gpu: Gpu) -> t.Set[str]:
        return {ci.uuid for gi in gpu.instances for ci in gi.compute_instances if ci.uuid is not None}

    return tuple(sorted(uuids(after) - uuids(before)))
