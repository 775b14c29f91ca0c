# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet's report: a run on simulated hosts, and page and data of fleets of different sizes.

BENCH_NODES="1000" benchmarks/run report runs it with another number of hosts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import nodes
import processes
import report_fleet
import tables

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import files as report_files

COUNTS = (10, 40)
SMALL = 2
GPUS = (8, 200, 2000, 8000)
COLLECTIONS = nodes.TOP / ".cache" / "collections"
# What the report is compared with: one task that reads the GPUs.
FACTS = [
    {
        "hosts": "gpu_nodes",
        "gather_facts": False,
        "tasks": [{"name": "Read the GPUs", "gpufleet.node.nvidia_driver_facts": {}}],
    }
]


def measure(small: bool) -> str:
    counts = [SMALL] if small else nodes.counts(COUNTS)
    return "\n\n".join([runs(counts), files(GPUS[:1] if small else GPUS)])


def runs(counts: list[int]) -> str:
    """The hosts share one simulated node, so that 1,000 of them need no time to create."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder, nodes.node("--gpus", "8") as node:
        work = Path(folder)
        (work / "facts.yml").write_text(json.dumps(FACTS))
        for count in counts:
            facts = play(work, count, nodes.interpreter(node), str(work / "facts.yml"))
            report = play(work, count, nodes.interpreter(node), "gpufleet.node.report")
            for method, used in (("nvidia_driver_facts", facts), ("report", report)):
                numbers = (used.seconds / count, used.cpu_seconds / count)
                relative = "%.2fx" % (used.cpu_seconds / facts.cpu_seconds)
                rows.append([count, method, *map("{:.2f}".format, numbers), "%.0f" % used.peak_mib, relative])
                print("... %s" % " ".join(map(str, rows[-1])), flush=True)
    return tables.table(
        "The fleet's report, compared with one task that reads the GPUs",
        ["hosts", "playbook", "seconds per host", "CPU s per host", "peak MiB", "CPU, relative"],
        rows,
        "Hosts with 8 simulated GPUs on this machine, without ssh and without a cluster; 20 forks on %d cores, on which "
        "the modules run too. Memory: proportional set size of ansible-playbook with all its children."
        % (os.cpu_count() or 0),
    )


def play(work: Path, count: int, interpreter: Path, playbook: str) -> processes.Usage:
    variables = {"ansible_connection": "local", "ansible_become": False}
    variables["ansible_python_interpreter"] = str(interpreter)
    hosts = {"node%d" % number: {} for number in range(1, count + 1)}
    inventory = work / "inventory.json"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": hosts, "vars": variables}}))
    (work / "ansible.cfg").touch()  # Ansible's defaults, independent of the user's configuration
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_HOME": str(work / "ansible"),
        "ANSIBLE_FORKS": "20",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), playbook]
    command += ["-e", "report_path=%s" % (work / "report")]
    return processes.measured(work / "playbook.log", environment, command)


def files(sizes: tuple[int, ...]) -> str:
    """Each in a process of its own, for the memory."""
    rows = []
    for gpus in sizes:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, json.dumps(written(gpus)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            rows.append(json.loads(pipe.read()))
        os.waitpid(child, 0)
    return tables.table(
        "Page and data by the number of GPUs",
        ["GPUs", "compare s", "write s", "ms per GPU", "page KiB", "KiB per GPU", "data KiB", "peak MiB"],
        rows,
        "Without the run: from what nodes and cluster return to the files. Hosts have 8 GPUs with four instances each.",
    )


def written(gpus: int) -> list[object]:
    fleet = report_fleet.Fleet(gpus)
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        started = time.monotonic()
        report = fleet.report()
        compared = time.monotonic()
        made = report_files.write(report, None, folder, False)
        ended = time.monotonic()
        page, data = (Path(str(made[key])).stat().st_size / 1024 for key in ("page", "data"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = ["%.2f" % (compared - started), "%.2f" % (ended - compared), "%.2f" % (1000 * (ended - started) / gpus)]
    return [gpus, *seconds, "%.0f" % page, "%.2f" % (page / gpus), "%.0f" % data, "%.0f" % peak]
