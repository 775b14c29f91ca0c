# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan the change of a GPU to its target with the least possible disruption.

A plan optimises, in this order: busy instances are kept (otherwise there is no plan);
the fewest GPU instances are destroyed, over all placements of the target; the most
compute instances are kept; the most MIG UUIDs are preserved; the largest profiles
still fit afterwards; the lowest starts.
"""

from __future__ import annotations

import typing as t

from .._common.text import listed
from . import messages, mode
from .board import ci_places
from .compute import Adjustment, adjust, new_ids
from .errors import BusyError, DisturbError, InfeasibleError, LayoutError
from .explain import refusal
from .model import DesiredInstance, Gpu, GpuInstance, Placement, Process, Target
from .operations import Created, Kept, Plan
from .solve import Search

# Scores are summed over a GPU's instances, and the sum of one rank must not reach the next:
# a GPU holds far fewer instances than this.
_STEP = 1000


def plan_gpu(gpu: Gpu, target: Target, disturb: bool = True, reset: bool = False) -> Plan:
    """The plan for one GPU. ``reset`` allows a reset of the GPU if its MIG mode must change.

    Raises LayoutError if the GPU does not support MIG, InfeasibleError if the instances do not
    fit, BusyError if they only fit when processes lose their instance or if a process blocks the
    mode change, and DisturbError if ``disturb`` is False and an idle instance must be destroyed.
    """
    if not gpu.mig_capable:
        if target.enabled:
            raise LayoutError(not_capable(gpu))
        return Plan(gpu, target)
    if target.enabled:
        why = refusal(gpu.board, target.instances)
        if why is not None:
            raise InfeasibleError("%s: %s" % (gpu.label, why))
    kept, created = _place(gpu, target)
    stays = {item.instance.id for item in kept}
    destroyed = tuple(gi for gi in sorted(gpu.instances, key=lambda gi: gi.placement) if gi.id not in stays)
    switch = None if bool(gpu.mode_current) == target.enabled else target.enabled
    planned = Plan(gpu, target, switch, kept=kept, destroyed=destroyed, created=created)
    try:
        _refuse_busy(gpu, kept, destroyed)
        if not disturb:
            _refuse_idle(gpu, kept, destroyed)
        change = mode.change(gpu, target.enabled, reset)
    except BusyError as error:
        error.plan = planned
        raise
    if change.blocked is not None:
        return Plan(gpu, target, blocked=change.blocked)
    return planned._replace(set_mode=change.request, reset=change.reset)


def mode_first_plan(gpu: Gpu, reset: bool = False) -> Plan:
    """The first step for a GPU whose driver lists its profiles only while MIG mode is on."""
    first = plan_gpu(gpu, Target(True), reset=reset)
    return first._replace(mode_first=first.blocked is None)


def not_capable(gpu: Gpu) -> str:
    return "%s does not support MIG: remove it from the layout, or set mig_enabled: false for it" % gpu.label


class _Current:
    """The instances of a GPU, and how well each matches a desired one."""

    def __init__(self, gpu: Gpu) -> None:
        self._at = {gi.placement: gi for gi in gpu.instances}
        self._busy = {process.gi_id for process in gpu.processes}
        self._busy_cis = {gi.id: _busy_cis(gpu, gi) for gi in gpu.instances}
        self._adjustments: t.Dict[t.Tuple[int, t.Tuple[int, ...], bool], Adjustment] = {}

    def match(self, desired: DesiredInstance, place: Placement) -> t.Optional[t.Tuple[GpuInstance, Adjustment]]:
        """The instance that can be kept for a desired one at this placement, with its compute instance changes."""
        gi = self._at.get(place)
        if gi is None or gi.profile_id != desired.profile.id:
            return None
        key = (gi.id, desired.slices, desired.reduced)
        if key not in self._adjustments:
            self._adjustments[key] = adjust(
                gi, desired.slices, self._busy_cis[gi.id], ci_places(desired.profile.slices), desired.reduced
            )
        return gi, self._adjustments[key]

    def score(self, desired: DesiredInstance, place: Placement) -> int:
        match = self.match(desired, place)
        if match is None:
            return self._reused_uuids(desired, place)
        gi, adjustment = match
        total = 0
        for rank in (
            gi.id in self._busy,
            len(self._busy_cis[gi.id].intersection(adjustment.keep)),
            1,
            len(adjustment.keep),
            adjustment.reused_ids,
        ):
            total = total * _STEP + rank
        return total

    def _reused_uuids(self, desired: DesiredInstance, place: Placement) -> int:
        """Number of UUIDs that reappear: they derive from GPU and ids, a GPU instance's id from its placement."""
        former = self._at.get(place)
        if former is None:
            return 0
        return len({ci.id for ci in former.compute_instances}.intersection(new_ids((), len(desired.slices))))


def _place(gpu: Gpu, target: Target) -> t.Tuple[t.Tuple[Kept, ...], t.Tuple[Created, ...]]:
    current = _Current(gpu)
    search = Search(gpu.board, target.instances, current.score)
    kept, created = [], []
    for desired, place in zip(search.instances, search.solve() or ()):
        match = current.match(desired, place)
        if match is None:
            created.append(Created(desired, place))
        else:
            gi, adjustment = match
            kept.append(Kept(gi, desired, adjustment.keep, adjustment.destroy, adjustment.create))
    kept.sort(key=lambda item: item.instance.placement)
    created.sort(key=lambda item: item.placement)
    return tuple(kept), tuple(created)


def _busy_cis(gpu: Gpu, gi: GpuInstance) -> t.Set[int]:
    return {ci.id for ci in gi.compute_instances if gpu.users(gi.id, (ci.id,))}


def _refuse_busy(gpu: Gpu, kept: t.Tuple[Kept, ...], destroyed: t.Sequence[GpuInstance]) -> None:
    blocked: t.List[str] = []
    processes: t.List[Process] = []
    for gi in destroyed:
        users = gpu.users(gi.id)
        if users:
            blocked.append("%s, used by %s" % (_gi_text(gpu, gi), messages.processes(users)))
            processes.extend(users)
    for item in kept:
        lost = _busy_cis(gpu, item.instance).intersection(item.destroy)
        if lost:
            users = gpu.users(item.instance.id, lost)
            blocked.append(
                "%s of %s, used by %s" % (_ci_text(item, lost), _gi_text(gpu, item.instance), messages.processes(users))
            )
            processes.extend(users)
    if blocked:
        raise BusyError(
            "%s: the layout cannot be reached without destroying %s. "
            "Stop these processes, or use a layout that keeps these instances at their placements"
            % (gpu.label, listed(blocked, "; and ", 8)),
            processes,
        )


def _refuse_idle(gpu: Gpu, kept: t.Sequence[Kept], destroyed: t.Sequence[GpuInstance]) -> None:
    lost = [_gi_text(gpu, gi) for gi in destroyed]
    lost.extend(
        "%s of %s" % (_ci_text(item, item.destroy), _gi_text(gpu, item.instance)) for item in kept if item.destroy
    )
    if lost:
        raise DisturbError(
            "%s: the layout cannot be reached without destroying %s, which no process uses. "
            "Allow it with disturb: true (in the role nvidia_mig_disturb), or use a layout that keeps these instances"
            % (gpu.label, listed(lost, "; and ", 8))
        )


def _gi_text(gpu: Gpu, gi: GpuInstance) -> str:
    return "GPU instance %d (%s at %s)" % (gi.id, gpu.profile(gi.profile_id).name, gi.placement)


def _ci_text(item: Kept, ids: t.Container[int]) -> str:
    return ", ".join(
        "compute instance %d (%s)"
        % (ci.id, messages.compute_instance(ci.slices, ci.reduced, item.desired.profile.name))
        for ci in item.instance.compute_instances
        if ci.id in ids
    )
