# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Properties derived from all profiles of a GPU or GPU instance."""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .._mig.model import Board, Gpu, Profile

if t.TYPE_CHECKING:
    from .._mig.backend import CiProfile


def board_of(gpu: Gpu, profiles: t.Sequence[Profile], call: str) -> t.Optional[Board]:
    """The board of a GPU with these profiles, smallest first; None if it does not list all while MIG mode is off.

    Raises BackendError for the driver's call if it does not list them although MIG mode is on.
    """
    if not profiles or not all(profile.placements for profile in profiles):
        if gpu.mode_current:
            text = "%s has MIG mode on but lists no profiles or placements"
            raise BackendError(codes.NOT_SUPPORTED, call, text % gpu.label)
        return None
    return Board(
        model=gpu.name,
        profiles=tuple(sorted(profiles, key=lambda profile: (profile.slices, profile.memory_mib, profile.name))),
        compute_slices=max(profile.slices for profile in profiles),
        memory_units=max(place.end for profile in profiles for place in profile.placements),
        max_gpu_instances=max(profile.max_instances for profile in profiles),
    )


def mark_reduced(offered: t.Iterable[CiProfile]) -> t.Tuple[CiProfile, ...]:
    """The compute instance profiles of one GPU instance, with ``reduced`` set.

    A 1g.20gb of an H100 offers 1_SLICE with 16 multiprocessors and 1_SLICE_REV1 with 26. Both have all
    of its slices. The first is the reduced one, which nvidia-smi calls 1c.1g.20gb.
    """
    found = tuple(offered)
    largest = max(((profile.slices, profile.multiprocessors) for profile in found), default=(0, 0))
    return tuple(
        profile._replace(reduced=profile.slices == largest[0] and profile.multiprocessors < largest[1])
        for profile in found
    )
