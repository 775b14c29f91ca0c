# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long planning takes: every transition between the layouts of every board known, and refusals.

Not a test: it measures and prints. The aim is a median under 5 ms and at worst 100 ms
for a GPU, and 50 ms for eight. Run it with the collection on the path:

    PYTHONPATH=.cache/collections python benchmarks/planner_speed.py [BOARD ...]
"""

from __future__ import annotations

import statistics
import sys
import time
import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import InfeasibleError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.explain import refusal
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    Board,
    ComputeInstance,
    Gpu,
    GpuInstance,
    Placement,
    Target,
    Wanted,
)
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan
from ansible_collections.gpufleet.node.plugins.plugin_utils import _boards

COLUMNS = "%-28s %9s %9s %9s %9s %9s %9s"


def layouts(board: Board) -> t.Tuple[t.List[Target], t.List[Target]]:
    """All layouts that fit, and all that would with one instance less."""
    fitting: t.List[t.Tuple[Wanted, ...]] = []
    beyond: t.List[t.Tuple[Wanted, ...]] = []

    def grow(first: int, chosen: t.Tuple[Wanted, ...]) -> None:
        fitting.append(chosen)
        for index in range(first, len(board.profiles)):
            more = chosen + (Wanted(board.profiles[index]),)
            if refusal(board, more) is None:
                grow(index, more)
            else:
                beyond.append(more)

    grow(0, ())
    return [Target(True, chosen) for chosen in fitting], [Target(True, chosen) for chosen in beyond]


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
    """A GPU with a layout, each instance with one compute instance or with one for each slice."""
    instances = []
    for number, new in enumerate(plan(gpu(board), target).created):
        slices = new.wanted.profile.slices
        cis = [(unit, 1) for unit in range(slices)] if split else [(0, slices)]
        instances.append(
            GpuInstance(
                number,
                new.wanted.profile.id,
                new.placement,
                tuple(ComputeInstance(n, 0, size, Placement(start, size)) for n, (start, size) in enumerate(cis)),
            )
        )
    return gpu(board, tuple(instances))


def timed(state: Gpu, target: Target) -> float:
    """Milliseconds for one plan, or for its refusal."""
    started = time.perf_counter()
    try:
        plan(state, target)
    except InfeasibleError:
        pass
    return (time.perf_counter() - started) * 1000


def main() -> None:
    print(COLUMNS % ("ms for one GPU", "plans", "median", "worst", "refusals", "median", "worst"))
    everything: t.List[float] = []
    for name in sys.argv[1:] or _boards.names():
        try:
            board = _boards.load(name)
        except _boards.BoardError:
            print("%-28s %9s" % (name, "geometry unknown"))
            continue
        fitting, beyond = layouts(board)
        states = [holding(board, target, split) for target in fitting for split in (False, True)]
        plans = [timed(state, target) for state in states for target in fitting]
        refusals = [timed(gpu(board), target) for target in beyond]
        numbers = [(len(found), statistics.median(found), max(found)) for found in (plans, refusals)]
        (count, median, worst), (refused, refused_median, refused_worst) = numbers
        print(
            COLUMNS
            % (
                name,
                count,
                "%.2f" % median,
                "%.2f" % worst,
                refused,
                "%.2f" % refused_median,
                "%.2f" % refused_worst,
            )
        )
        everything += plans
    eights = [sum(everything[n : n + 8]) for n in range(0, len(everything) - 7, 8)]
    if eights:
        print(
            "eight GPUs one after the other: median %.2f ms, worst %.2f ms" % (statistics.median(eights), max(eights))
        )


if __name__ == "__main__":
    main()
