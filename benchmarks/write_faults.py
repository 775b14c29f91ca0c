# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a GPU after one failed write, for every write of some transitions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nodes
import tables

Layout = dict[str, int]

TRANSITIONS: list[tuple[Layout, Layout]] = [
    ({}, {"1g.10gb": 7}),
    ({"1g.10gb": 7}, {}),
    ({"3g.40gb": 1, "1g.10gb": 4}, {"3g.40gb": 1, "2g.20gb": 2}),
    ({"7g.80gb": 1}, {"4g.40gb": 1, "3g.40gb": 1}),
    ({"3g.40gb": 2}, {"1g.20gb": 4}),
]
REACHED, BEFORE, NEITHER = "layout reached", "as before", "neither"
WITHOUT_REPEATING = "gpufleet.node, without retries"


def measure(small: bool) -> str:
    transitions = TRANSITIONS[:1] if small else TRANSITIONS
    with nodes.node("--gpus", "1", "--board", "A100-80GB") as path:
        results = json.loads(nodes.on_node(path, "write_faults.py", [json.dumps(transitions)]))
    rows = [
        [way, *("%d (%d %%)" % (counts.get(end, 0), 100 * counts.get(end, 0) // sum(counts.values()))
                for end in (REACHED, BEFORE, NEITHER))]
        for way, counts in results.items()
    ]  # fmt: skip
    note = "" if len(rows) > 2 else "nvidia-mig-parted is not on PATH, so it was not measured."
    return tables.table("One write fails once (UNKNOWN)", ["method", REACHED, BEFORE, NEITHER], rows, note)


def on_node(transitions: list[tuple[Layout, Layout]]) -> dict[str, Counter[str]]:
    """Run on the node; return the number of results by method."""
    sys.path.insert(0, str(nodes.TOP / "simulator"))
    from nvsim.library import Node

    from ansible_collections.gpufleet.node.plugins.module_utils._mig import retry

    node = Node(Path(os.environ["NVSIM_STATE"]).parent)
    ways: dict[str, str] = {"gpufleet.node": "", WITHOUT_REPEATING: ""}
    peer = shutil.which("nvidia-mig-parted")
    if peer is not None:
        ways["nvidia-mig-parted"] = peer
    ends: dict[str, Counter[str]] = {}
    pauses = retry.PAUSES
    for way, program in ways.items():
        retry.PAUSES = () if way == WITHOUT_REPEATING else pauses
        ends[way] = Counter()
        for before, after in transitions:
            nth, writes = 0, 1
            while nth <= writes:  # the first round, without a fault, counts the writes
                apply(before)
                node.clear_trace()
                node.trace()
                if nth:
                    node.fault("write", nth)
                apply_with(program, node.directory, after) if program else apply(after)
                node.clear_faults()
                node.trace(False)
                if nth:
                    found = current_layout()
                    ends[way][REACHED if found == after else BEFORE if found == before else NEITHER] += 1
                else:
                    writes = sum("Create" in call["function"] or "Destroy" in call["function"] for call in node.calls())
                nth += 1
    return ends


def apply(layout: Layout) -> None:
    from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend
    from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout as layouts
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge_node import converge_node
    from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan_node import plan_node

    driver = NvmlBackend()
    driver.open()
    desired = layouts.parse([{"devices": "all", "mig_enabled": True, "mig_devices": layout}])
    node = plan_node(driver, desired, disturb=True, reset=False)
    converge_node(driver, node.plans, node.replan)
    driver.close()


def apply_with(program: str, directory: Path, layout: Layout) -> None:
    """Run mig-parted. It may fail; the resulting state is what counts."""
    config = directory / "config.json"
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": layout}
    config.write_text(json.dumps({"version": "v1", "mig-configs": {"bench": [entry]}}))
    command = [program, "apply", "-f", str(config), "-c", "bench"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def current_layout() -> Layout:
    """Return the layout of the GPU. GPU instances without a full-size compute instance count as incomplete."""
    from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend

    driver = NvmlBackend()
    driver.open()
    gpu = driver.read(0)
    driver.close()
    counts: Counter[str] = Counter()
    for gi in gpu.instances:
        profile = gpu.profile(gi.profile_id)
        whole = [ci.slices for ci in gi.compute_instances] == [profile.slices]
        counts[profile.name if whole else "incomplete"] += 1
    return dict(counts)


if __name__ == "__main__":
    json.dump(on_node(json.loads(sys.argv[1])), sys.stdout)
