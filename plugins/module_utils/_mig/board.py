# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Limits of a board other than placements: slices, counts, media engines, and compute instance placements."""

from __future__ import annotations

import typing as t

from .model import ATTRIBUTES, GFX, ME, ME_ALL, NO_ME, PLAIN, Board, Placement, Profile

_DOUBLE_MEMORY = 9  # NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2: one slice with double memory. It has no attribute.

# Starts of compute instances inside a GPU instance: {slices of the GI: {slices of the CI: starts}}. Used where there
# is no live GPU instance to query.
_COMPUTE: t.Dict[int, t.Dict[int, t.Tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}


def attribute(profile: Profile) -> str:
    """The attribute of a profile: PLAIN, ME, ME_ALL, NO_ME or GFX.

    It follows from the constant, or from the name if the constant is unknown: a driver may
    have profiles that are newer than this table, and nvidia-smi only shows names.
    """
    by_constant = ATTRIBUTES.get(profile.constant)
    if by_constant is not None:
        return by_constant
    return next((suffix for suffix in (ME, ME_ALL, NO_ME, GFX) if profile.name.endswith(suffix)), PLAIN)


def capacity(board: Board, profile: Profile) -> int:
    """How many instances of a profile an empty GPU holds.

    For most profiles it follows from placements and slices. The driver's count is used only
    for graphics profiles, which geometry does not limit, because NVML misreports it on the A30.
    """
    kind = attribute(profile)
    if kind in (ME, ME_ALL):
        return 1
    fitting = _disjoint(profile)
    if profile.slices:
        fitting = min(fitting, board.compute_slices // profile.slices)
    return min(fitting, profile.max_instances) if kind == GFX else fitting


def exceeded_limits(board: Board, profiles: t.Iterable[Profile]) -> t.List[str]:
    """All limits other than placements that these GPU instances exceed together; empty if they can coexist.

    The reasons are clauses without a full stop, to follow "... does not fit: ".
    """
    chosen = list(profiles)
    out: t.List[str] = []
    slices = sum(profile.slices for profile in chosen)
    if slices > board.compute_slices:
        out.append("%d compute slices are needed and the GPU has %d" % (slices, board.compute_slices))
    for profile in sorted(set(chosen), key=lambda p: p.name):
        count = chosen.count(profile)
        most = capacity(board, profile)
        if count > most:
            out.append("the GPU holds at most %d of %s, not %d" % (most, profile.name, count))
    if len(chosen) > board.max_gpu_instances:
        out.append("the GPU holds at most %d GPU instances, not %d" % (board.max_gpu_instances, len(chosen)))
    out.extend(_media(chosen))
    return out


def ci_places(slices: int) -> t.Dict[int, t.Tuple[Placement, ...]]:
    """The placements of compute instances in a GPU instance with this number of slices, by their own slices."""
    starts = _COMPUTE.get(slices)
    if starts is None:  # no known board has such an instance; single slices and the whole are safe to assume
        starts = {1: tuple(range(slices)), slices: (0,)}
    return {size: tuple(Placement(start, size) for start in found) for size, found in starts.items()}


def offers_reduced(board: Board, profile: Profile) -> bool:
    """Whether GPU instances of the profile offer two kinds of compute instance with all slices.

    A 1g.20gb of an H100 has 26 multiprocessors. Its compute instance has either all of them or, if it is of
    the reduced kind, the 16 of a single slice. nvidia-smi calls the first 1g.20gb and the second 1c.1g.20gb.
    On an A100 a single slice always has 14: there is only one kind, and both names denote it.

    Only an existing GPU instance lists its kinds, which ``_backend.boards.mark_reduced`` compares. Layouts and
    plans need the answer earlier and derive it from the GPU instance profiles: there are two kinds if another
    profile with the same number of slices has fewer multiprocessors. Some board files lack the multiprocessors
    (0). Those boards are newer than the A100, so their double memory profile has two kinds.
    """
    if not profile.multiprocessors:
        return profile.constant == _DOUBLE_MEMORY
    return any(
        other.slices == profile.slices and 0 < other.multiprocessors < profile.multiprocessors
        for other in board.profiles
    )


def _disjoint(profile: Profile) -> int:
    """How many of a profile's placements can be used at once: greedily by end, which is optimal for intervals."""
    count = 0
    free_from = 0
    for placement in sorted(profile.placements, key=lambda p: p.end):
        if placement.start >= free_from:
            count += 1
            free_from = placement.end
    return count


def _media(chosen: t.List[Profile]) -> t.Iterator[str]:
    """Conflicts over media engines: a GPU has one set of extensions, and +me.all takes all engines."""
    takers = sorted(p.name for p in chosen if attribute(p) == ME_ALL)
    extended = sorted(p.name for p in chosen if attribute(p) == ME)
    if len(set(takers)) > 1:  # several of one profile already exceed its capacity
        yield "%s each take all media engines, so there can be only one of them" % " and ".join(takers)
    if takers:
        others = sorted({p.name for p in chosen if attribute(p) not in (ME_ALL, NO_ME)})
        if others:
            yield "%s takes all media engines, so all others must be -me profiles, unlike %s" % (
                takers[0],
                " and ".join(others),
            )
    if len(set(extended)) > 1:
        yield "%s have the media extensions, of which the GPU has one set" % " and ".join(extended)
