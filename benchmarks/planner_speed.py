# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Planning time: every transition between the layouts of every known board, and rejected layouts.

Targets: a median below 5 ms and a maximum of 100 ms for one GPU, and 50 ms for eight GPUs.
"""

from __future__ import annotations

import statistics
import time
import typing as t

import tables

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import InfeasibleError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.explain import refusal
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    Board,
    ComputeInstance,
    DesiredInstance,
    Gpu,
    GpuInstance,
    Placement,
    Target,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards

SMALL = ["A30-24GB"]


def layouts(board: Board) -> t.Tuple[t.List[Target], t.List[Target]]:
    """Return all layouts that fit, and all layouts that exceed the board by one instance."""
    fitting: t.List[t.Tuple[DesiredInstance, ...]] = []
    beyond: t.List[t.Tuple[DesiredInstance, ...]] = []

    def grow(first: int, chosen: t.Tuple[DesiredInstance, ...]) -> None:
        fitting.append(chosen)
        for index in range(first, len(board.profiles)):
            more = chosen + (DesiredInstance(board.profiles[index]),)
            if refusal(board, more) is None:
                grow(index, more)
            else:
                beyond.append(more)

    grow(0, ())
    return [Target(True, chosen) for chosen in fitting], [Target(True, chosen) for chosen in beyond]


def geometries(names: t.Iterable[str]) -> t.List[t.List[Board]]:
    """Group the boards by geometry."""
    found: t.Dict[t.Any, t.List[Board]] = {}
    for name in names:
        try:
            board = boards.load(name)
        except boards.BoardError:
            continue  # unknown geometry
        key = tuple((p.constant, p.slices, p.placements, p.max_instances) for p in board.profiles)
        found.setdefault(key, []).append(board)
    return list(found.values())


def gpu(board: Board, instances: t.Tuple[GpuInstance, ...] = ()) -> Gpu:
    return Gpu(
        index=0,
        uuid="GPU-0",
        pci_bus_id="00000000:01:00.0",
        name=board.model,
        pci_device_id=0,
        pci_subsystem_id=0,
        mig_capable=True,
        mode_current=True,
        mode_pending=True,
        resetless=None,
        board=board,
        profiles_known=True,
        instances=instances,
    )


def holding(board: Board, target: Target, split: bool) -> Gpu:
    """Return a GPU with a layout. Each instance has one compute instance, or with ``split`` one per slice."""
    instances = []
    for number, new in enumerate(plan_gpu(gpu(board), target).created):
        slices = new.desired.profile.slices
        cis = [(unit, 1) for unit in range(slices)] if split else [(0, slices)]
        instances.append(
            GpuInstance(
                number,
                new.desired.profile.id,
                new.placement,
                tuple(ComputeInstance(n, 0, size, Placement(start, size)) for n, (start, size) in enumerate(cis)),
            )
        )
    return gpu(board, tuple(instances))


def timed(state: Gpu, target: Target) -> float:
    """Return the CPU time in ms of one plan or rejection."""
    started = time.process_time()
    try:
        plan_gpu(state, target)
    except InfeasibleError:
        pass
    return (time.process_time() - started) * 1000


def measure(small: bool) -> str:
    rows: t.List[t.Sequence[object]] = []
    everything: t.List[float] = []
    for alike in geometries(SMALL if small else boards.names()):
        board = alike[0]
        name = board.model if len(alike) == 1 else "%s (and %d equal boards)" % (board.model, len(alike) - 1)
        fitting, beyond = layouts(board)
        states = [holding(board, target, split) for target in fitting for split in (False, True)]
        plans = [timed(state, target) for state in states for target in fitting]
        refusals = [timed(gpu(board), target) for target in beyond]
        rows.append([name, *_summary(plans), *_summary(refusals)])
        everything += plans
    eights = [sum(everything[n : n + 8]) for n in range(0, len(everything) - 7, 8)]
    rows.append(["eight GPUs, sequentially", *_summary(eights), "", "", ""])
    return tables.table(
        "Planning one GPU, in ms of CPU time",
        ["board", "plans", "median", "maximum", "rejections", "median", "maximum"],
        rows,
        "All transitions between the layouts of a board, with whole and with split compute instances.",
    )


def _summary(times: t.Sequence[float]) -> t.List[str]:
    return [str(len(times)), "%.2f" % statistics.median(times), "%.2f" % max(times)]
