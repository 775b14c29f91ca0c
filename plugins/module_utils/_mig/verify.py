# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Verify that a GPU matches its plan."""

from __future__ import annotations

import typing as t

from . import messages
from .model import Gpu
from .operations import Plan


def mismatch(plan: Plan, gpu: Gpu) -> t.Optional[str]:
    """A description of how the GPU differs from its planned state; None if it does not."""
    if plan.target.enabled != bool(gpu.mode_current):
        return "MIG mode is %s" % ("on" if gpu.mode_current else "off")
    if gpu.mode_current != gpu.mode_pending:
        return "a change of MIG mode is pending"
    desired = {(kept.instance.profile_id, kept.instance.placement): kept.desired for kept in plan.kept}
    desired.update({(new.desired.profile.id, new.placement): new.desired for new in plan.created})
    present = {(gi.profile_id, gi.placement): gi for gi in gpu.instances}
    for key in sorted(set(desired) - set(present)):
        return "%s is missing" % messages.place(desired[key].profile.name, key[1])
    for key in sorted(set(present) - set(desired)):
        return "%s is unexpected" % messages.gpu_instance(gpu, present[key])
    for key, gi in present.items():
        one = desired[key]
        planned = [(slices, one.reduced) for slices in one.slices]
        if sorted((ci.slices, ci.reduced) for ci in gi.compute_instances) != sorted(planned):
            expected = messages.compute_instances(planned, one.profile.name)
            return "%s, planned %s" % (messages.gpu_instance(gpu, gi), expected)
    return None
