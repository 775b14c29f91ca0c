# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cost of every transition between the layouts of a board, with three methods on the same simulator.

* planned: this collection.
* destroy everything: destroy all instances, and create the new ones at placements that are known to fit.
* try orders: destroy all instances, and create the new ones without placements, large before small. If the driver
  rejects one, destroy all and try the next order.

No method changes a GPU that already matches, so only pairs of different layouts count.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from typing import Iterable

import nodes
import tables

BOARD, SMALL_BOARD = "A100-40GB", "A30-24GB"  # with 128 and 20 layouts
SAMPLE = 100


def measure(small: bool) -> str:
    board = SMALL_BOARD if small else BOARD
    with nodes.node("--gpus", "1", "--board", board) as path:
        counted = json.loads(nodes.on_node(path, "transitions.py"))
    pairs = counted["pairs"]
    rows = [
        [
            *(way, result["destroyed"], "%.2f" % (result["destroyed"] / pairs)),
            *(result["writes"], "%.2f" % (result["writes"] / pairs)),
            *("%.2fx" % (result["writes"] / counted["ways"]["planned"]["writes"]), result["failed"]),
        ]
        for way, result in counted["ways"].items()
    ]
    return tables.table(
        "%s: all %d transitions between its %d layouts" % (board, pairs, counted["layouts"]),
        [
            *("method", "GPU instances destroyed", "per transition"),
            *("NVML writes", "per transition", "writes, relative", "not reached"),
        ],
        rows,
        "Writes are calls that create or destroy a GPU or compute instance, including rejected calls.",
    )


class Counted:
    """The NVML backend with a counter of writes."""

    WRITES = ("create_gpu_instance", "destroy_gpu_instance", "create_compute_instance", "destroy_compute_instance")

    def __init__(self, driver: object) -> None:
        self._driver = driver
        self.writes: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        call = getattr(self._driver, name)
        if name not in self.WRITES:
            return call

        def counted(*arguments: object) -> object:
            self.writes[name] += 1
            return call(*arguments)

        return counted


def on_node() -> dict:
    """Run on the node.

    The other two methods always start with an empty GPU. Their cost is therefore the cost of clearing the first layout
    plus the cost of creating the second, and each is measured once per layout. Plans are computed for every pair. Every
    SAMPLE-th plan is also executed, and must have the planned cost.
    """
    import planner_speed

    from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Gpu, Target
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import Plan, plan_gpu

    driver = NvmlBackend()
    driver.open()
    driver.set_mode(0, True)

    def execute(made: Plan) -> Counter[str]:
        counted = Counted(driver)
        [outcome] = converge(counted, [made])
        if outcome.error:
            raise RuntimeError(outcome.error)
        return counted.writes

    def clear() -> Counter[str]:
        counted = Counted(driver)
        for gi in driver.read(0).instances:
            for ci in gi.compute_instances:
                counted.destroy_compute_instance(0, gi.id, ci.id)
            counted.destroy_gpu_instance(0, gi.id)
        return counted.writes

    def whole(counted: Counted, gi_id: int) -> None:
        best = max(driver.compute_profiles(0, gi_id), key=lambda profile: profile.multiprocessors)
        counted.create_compute_instance(0, gi_id, best.id, None)

    def at_known_placements(target: Target) -> Counter[str]:
        counted = Counted(driver)
        for new in plan_gpu(driver.read(0), target).created:
            whole(counted, counted.create_gpu_instance(0, new.desired.profile.id, new.placement))
        return counted.writes

    def in_some_order(target: Target) -> Counter[str] | None:
        writes: Counter[str] = Counter()
        large_first = sorted(target.instances, key=lambda w: (-w.profile.slices, -w.profile.memory_mib))
        for order in orders([desired.profile.id for desired in large_first]):
            counted = Counted(driver)
            done = all(create_anywhere(counted, profile_id) for profile_id in order)
            writes += counted.writes
            if done:
                return writes
            writes += clear()
        return None

    def create_anywhere(counted: Counted, profile_id: int) -> bool:
        import pynvml

        counted.writes["create_gpu_instance"] += 1
        try:
            instance = pynvml.nvmlDeviceCreateGpuInstance(pynvml.nvmlDeviceGetHandleByIndex(0), profile_id)
        except pynvml.NVMLError_InsufficientResources:
            return False
        whole(counted, pynvml.nvmlGpuInstanceGetInfo(instance).id)
        return True

    empty = driver.read(0)
    targets, _beyond = planner_speed.layouts(empty.board)
    holding: list[Gpu] = []
    creating: dict[str, list[Counter[str] | None]] = {"destroy everything": [], "try orders": []}
    clearing: list[Counter[str]] = []
    for target in targets:
        creating["try orders"].append(in_some_order(target))
        clear()
        creating["destroy everything"].append(at_known_placements(target))
        holding.append(driver.read(0))
        clearing.append(clear())

    results: dict[str, Counter[str]] = {way: Counter(destroyed=0, writes=0, failed=0) for way in ("planned", *creating)}

    def count(way: str, writes: Counter[str]) -> None:
        results[way]["destroyed"] += writes["destroy_gpu_instance"]
        results[way]["writes"] += sum(writes.values())

    for number, (start, target) in enumerate(itertools.permutations(range(len(targets)), 2)):
        made = plan_gpu(holding[start], targets[target])
        planned = Counter(operation.kind for operation in made.operations)
        if number % SAMPLE == 0:
            clear()
            at_known_placements(targets[start])
            real = execute(plan_gpu(driver.read(0), targets[target]))
            if real != planned:
                raise RuntimeError("a plan with %s was executed with %s" % (planned, real))
        count("planned", planned)
        for way, costs in creating.items():
            created = costs[target]
            count(way, clearing[start] + (created or Counter()))
            results[way]["failed"] += created is None
    driver.close()
    return {"layouts": len(targets), "pairs": len(targets) * (len(targets) - 1), "ways": results}


def orders(ids: list[int]) -> Iterable[tuple[int, ...]]:
    """Return every distinct order of the ids, beginning with the given one."""
    return dict.fromkeys(itertools.permutations(ids))


if __name__ == "__main__":
    json.dump(on_node(), sys.stdout)
