# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wall time for GPUs with seven instances each and 100 ms per write, in parallel and sequentially."""

from __future__ import annotations

import json
import sys
import time

import nodes
import tables


def measure(small: bool) -> str:
    gpus = 2 if small else 8
    seconds = {}
    for way in ("parallel", "sequential"):
        with nodes.node("--gpus", str(gpus), "--board", "A100-80GB") as path:
            nodes.on_node(path, "parallel.py", ["mode"])
            nodes.nvsim("latency", path, "--write", "--ms", "100")
            seconds[way] = json.loads(nodes.on_node(path, "parallel.py", [way]))
    return tables.table(
        "%d GPUs, seven instances each, 100 ms per write" % gpus,
        ["method", "seconds", "speed"],
        [[way, "%.2f" % took, "%.1fx" % (seconds["sequential"] / took)] for way, took in seconds.items()],
        "%d writes: seven GPU instances and seven compute instances on each GPU." % (14 * gpus),
    )


def on_node(way: str) -> float:
    """Run on the node; return the duration of the convergence in seconds."""
    from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import converge
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Target
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu

    driver = NvmlBackend()
    driver.open()
    if way == "mode":
        for index in range(driver.count()):
            driver.set_mode(index, True)
        return 0.0
    plans = []
    for index in range(driver.count()):
        gpu = driver.read(index)
        small = min(gpu.board.profiles, key=lambda profile: (profile.memory_mib, profile.constant))
        plans.append(plan_gpu(gpu, Target(True, (DesiredInstance(small),) * 7)))
    batches = [plans] if way == "parallel" else [[one] for one in plans]
    started = time.monotonic()
    for batch in batches:
        failed = [outcome.error for outcome in converge(driver, batch) if outcome.error]
        if failed:
            raise RuntimeError("; ".join(failed))
    took = time.monotonic() - started
    driver.close()
    return took


if __name__ == "__main__":
    json.dump(on_node(sys.argv[1]), sys.stdout)
