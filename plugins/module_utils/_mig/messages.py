# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Descriptions of instances, processes and operations for messages, and of problems that several GPUs share."""

from __future__ import annotations

import typing as t

from .model import ComputeInstance, Gpu, GpuInstance, Placement, Process
from .operations import CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, RESET, SET_MODE, Operation
from .text import listed

# Clients that can block a mode change without being listed as processes.
UNLISTED_CLIENTS = (
    "nvidia-persistenced, DCGM, a monitoring agent, a device plugin or a display server may hold the GPU "
    "without being listed"
)

# The roles use the same words, so that preflight lists this problem once.
NOT_ROOT = "Ansible does not run as root. Run as root (become: true)"


def place(name: str, placement: Placement) -> str:
    return "%s at %s" % (name, placement)


def gpu_instance(gpu: Gpu, instance: GpuInstance) -> str:
    """``3g.40gb at 4:4 with compute instances 1c+2c``."""
    name = gpu.profile_name(instance.profile_id)
    text = place(name, instance.placement)
    if not instance.compute_instances:
        return text + " without compute instance"
    found = sorted(instance.compute_instances, key=lambda ci: -ci.slices)
    kind = "compute instance" if len(found) == 1 else "compute instances"
    return "%s with %s %s" % (text, kind, "+".join(compute_instance(ci, name) for ci in found))


def compute_instance(ci: ComputeInstance, profile: str) -> str:
    """``1c``; if that is ambiguous with the whole GPU instance, ``1c.1g.20gb``."""
    return "%dc.%s" % (ci.slices, profile) if ci.reduced else "%dc" % ci.slices


def processes(found: t.Iterable[Process]) -> str:
    """The processes without duplicates, which are listed for several instances; of many, only the first ones."""
    known = sorted({(process.pid, process.name or "unknown") for process in found})
    return listed(["PID %d (%s)" % user for user in known], ", ", 16)


def in_progress(operation: Operation) -> str:
    """The operation in progress: ``creating 3g.40gb at 4:4``."""
    if operation.kind == SET_MODE:
        return "switching MIG mode %s" % ("on" if operation.enabled else "off")
    if operation.kind == RESET:
        return "resetting the GPU"
    name = operation.profile.name if operation.profile else "GPU instance"
    where = place(name, operation.placement) if operation.placement else name
    if operation.kind == CREATE_GI:
        return "creating " + where
    if operation.kind == DESTROY_GI:
        return "destroying " + where
    size = (
        "unknown size"
        if operation.slices is None
        else "1 slice"
        if operation.slices == 1
        else "%d slices" % operation.slices
    )
    inside = "a compute instance of %s" % size
    return "%s %s in %s" % ({CREATE_CI: "creating", DESTROY_CI: "destroying"}[operation.kind], inside, where)


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
