# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Descriptions of instances, processes and operations for messages, and of problems that several GPUs share."""

from __future__ import annotations

import typing as t

from .._common.text import listed
from .model import Gpu, GpuInstance, Placement, Process
from .operations import DESTROY_CI, DESTROY_GI, RESET, SET_MODE, Operation
from .profile import compute_name

# Clients that can block a mode change without being listed as processes.
UNLISTED_CLIENTS = (
    "nvidia-persistenced, DCGM, a monitoring agent, a device plugin or a display server may hold the GPU "
    "without being listed"
)


def place(name: str, placement: Placement) -> str:
    return "%s at %s" % (name, placement)


def gpu_instance(gpu: Gpu, instance: GpuInstance) -> str:
    """``3g.40gb at 4:4 with compute instances 2c+1c``."""
    name = gpu.profile_name(instance.profile_id)
    found = compute_instances(((ci.slices, ci.reduced) for ci in instance.compute_instances), name)
    return "%s %s" % (place(name, instance.placement), found)


def compute_instances(found: t.Iterable[t.Tuple[int, bool]], profile: str) -> str:
    """``with compute instances 2c+1c``: those with these slices, reduced or not, in a GPU instance of the profile."""
    names = [compute_instance(slices, reduced, profile) for slices, reduced in sorted(found, reverse=True)]
    if not names:
        return "without compute instance"
    return "with compute instance%s %s" % ("s" if len(names) > 1 else "", "+".join(names))


def compute_instance(slices: int, reduced: bool, profile: str) -> str:
    """``1c``; if that is ambiguous with the whole GPU instance, ``1c.1g.20gb``."""
    return "%dc.%s" % (slices, profile) if reduced else "%dc" % slices


def processes(found: t.Iterable[Process]) -> str:
    """The processes without duplicates, which are listed for several instances; of many, only the first ones."""
    known = sorted({(process.pid, process.name or "unknown") for process in found})
    return listed(["PID %d (%s)" % user for user in known], ", ", 16)


def operation(write: Operation) -> str:
    """One write: ``create GPU instance 3g.40gb at 4:4``."""
    if write.kind == SET_MODE:
        return "turn MIG mode %s" % ("on" if write.enabled else "off")
    if write.kind == RESET:
        return "reset the GPU"
    return "%s %s" % ("destroy" if write.kind in (DESTROY_CI, DESTROY_GI) else "create", instance(write))


def instance(write: Operation) -> str:
    """The instance that a write creates or destroys: ``compute instance 1c.3g.40gb in 3g.40gb at 4:4``."""
    profile = write.profile
    where = "%s at %s" % (profile.name if profile else "", write.placement)
    if profile is None or write.slices is None:
        return "GPU instance " + where
    return "compute instance %s in %s" % (compute_name(profile, write.slices, write.reduced), where)


def merged(problems: t.Iterable[t.Tuple[Gpu, str]]) -> t.List[str]:
    """The problems of GPUs, with their labels, as one message for each problem that names all its GPUs."""
    by_text: t.Dict[str, t.List[Gpu]] = {}
    for gpu, text in problems:
        by_text.setdefault(text.replace(gpu.label, "\0"), []).append(gpu)
    return [text.replace("\0", labels(gpus)) for text, gpus in by_text.items()]


def labels(gpus: t.Sequence[Gpu]) -> str:
    """``GPU 0 (...)`` in full; of several GPUs the indices and products."""
    if len(gpus) == 1:
        return gpus[0].label
    return "GPUs %s (%s)" % (
        listed_indices([gpu.index for gpu in gpus]),
        listed(sorted({gpu.kind for gpu in gpus}), ", "),
    )


def listed_indices(indices: t.Sequence[int]) -> str:
    """The indices of GPUs; of many, the first ones."""
    return listed([str(index) for index in indices], ", ", 16)
