# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Errors of the engine. Each message is self-contained: it names the entry or GPU and the remedy."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .model import Process
    from .operations import Plan


class MigError(Exception):
    """Base of all errors that the engine raises before it writes."""


class LayoutError(MigError):
    """The layout is malformed, matches no GPU, or names a profile that the GPU does not have."""


class InfeasibleError(MigError):
    """The instances cannot exist on the GPU at the same time."""


class BusyError(MigError):
    """``processes`` prevent the change of a GPU. ``plan`` is that change without them; the planner sets it."""

    plan: Plan

    def __init__(self, text: str, processes: t.Sequence[Process]) -> None:
        super().__init__(text)
        self.processes = tuple(processes)


class DisturbError(MigError):
    """The layout would destroy idle instances, which ``disturb: false`` forbids."""
