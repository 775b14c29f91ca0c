# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A board as it follows from the profiles that a GPU tells."""

from __future__ import annotations

import typing as t

from .._mig.model import Board, Profile


def board_of(model: str, profiles: t.Sequence[Profile]) -> t.Optional[Board]:
    """The board that these profiles make up; None if there are none. Small profiles come first."""
    if not profiles:
        return None
    return Board(
        model=model,
        profiles=tuple(sorted(profiles, key=lambda profile: (profile.slices, profile.memory_mib, profile.name))),
        compute_slices=max(profile.slices for profile in profiles),
        memory_units=max(place.end for profile in profiles for place in profile.placements),
        max_gpu_instances=max(profile.max_instances for profile in profiles),
    )
