# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of site.yml costs where there is nothing to do, beside as many tasks that do nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fleets
import nodes
import tables

COUNTS = (1, 4, 16)
FORKS = 16
MOST = 40  # tasks that run on a node with nothing to do
REPEATS, MANY = 3, 16  # many nodes are an average of their own
PLAYBOOK = nodes.TOP / "playbooks" / "site.yml"
# Actions that run on the controller alone.
CONTROLLER = (
    *("assert", "debug", "fail", "import_role", "include_role", "include_tasks", "include_vars", "meta", "set_fact"),
    "validate_argument_spec",
)
FACTS = ("service_facts", "setup", "gpufleet.node.nvidia_driver_facts")
# Files of tasks about packages, their sources and their keys, by the beginnings of their names.
PACKAGES = ("apt", "before", "bring", "install", "key", "list", "note", "offers", "packages", "record", "repository", "sources")
KINDS = ("facts", "packages", "nvidia_mig", "other modules", "controller")


def measure() -> str:
    counts = [int(count) for count in os.environ.get("BENCH_NODES", "").split()] or list(COUNTS)
    rows = []
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder, fleets.of(max(counts)) as fleet:
        work = Path(folder)
        print("... the first run, which provisions %d nodes" % max(counts), flush=True)
        play(work, fleet, max(counts), True, PLAYBOOK, *fleet.options)
        for count in counts:
            for pipelining in (True, False):
                rows.append(row(work, fleet, count, pipelining))
                print("... " + " ".join(rows[-1]), flush=True)
    return tables.table(
        "A second run of site.yml: nodes with eight GPUs, forks %d" % FORKS,
        ["nodes", "pipelining", "seconds", "a node", "tasks", "on the node", "as many pings", "relative", *KINDS],
        rows,
        "Nodes: %s; they and Ansible share %d cores, software alone. Tasks: those of one node that were not skipped; those "
        "with a module run on the node. Pings: as many tasks of ansible.builtin.ping as run on the node. Below %d nodes "
        "it is the fastest of %d runs. Then shares of the time; packages: with their sources and keys; controller: with "
        "skipped tasks."
        % (fleet.what, os.cpu_count() or 0, MANY, REPEATS),
    )


def row(work: Path, fleet: fleets.Fleet, count: int, pipelining: bool) -> list[str]:
    """The fastest of some runs, as whatever else the machine does only makes one slower; as many pings between them."""
    runs, pings = [], []
    for _number in range(REPEATS if count < MANY else 1):
        runs.append(play(work, fleet, count, pipelining, PLAYBOOK, *fleet.options))
        there = on_the_node(runs[-1][1])
        pings.append(play(work, fleet, count, pipelining, ping(work, there))[0])
    took, tasks = min(runs, key=lambda run: run[0])
    seconds = dict.fromkeys(KINDS, 0.0)
    for task in tasks:
        seconds[kind(task)] += task["seconds"]
    cells = [str(count), "on" if pipelining else "off", "%.1f" % took, "%.2f" % (took / count)]
    cells += [str(sum(1 for task in tasks if task["hosts"])), str(on_the_node(tasks)), "%.1f" % min(pings)]
    cells += ["%.2fx" % (took / min(pings))]
    return cells + ["%.0f %%" % (100 * each / sum(seconds.values())) for each in seconds.values()]


def on_the_node(tasks: list[dict[str, Any]]) -> int:
    """How many of the tasks ran a module there, none of which had anything to change."""
    if any(task["changed"] for task in tasks):
        raise RuntimeError("the second run changed something: %s" % [task for task in tasks if task["changed"]])
    there = sum(1 for task in tasks if task["hosts"] and kind(task) != "controller")
    if there > MOST:
        raise RuntimeError("the second run takes %d tasks on a node, and %d are the most it may" % (there, MOST))
    return there


def kind(task: dict[str, Any]) -> str:
    """Where the time of a task goes."""
    action = task["action"].removeprefix("ansible.builtin.")
    if action in CONTROLLER or not task["hosts"]:
        return "controller"
    if action in FACTS:
        return "facts"
    if action == "gpufleet.node.nvidia_mig":
        return "nvidia_mig"
    return "packages" if task["file"].startswith(PACKAGES) else "other modules"


def ping(work: Path, count: int) -> Path:
    """A playbook of so many pings."""
    path = work / "ping.json"
    tasks = [{"name": "Ping %d" % number, "ansible.builtin.ping": {}} for number in range(count)]
    play = {"name": "Ping", "hosts": "gpu_nodes", "gather_facts": False, "become": True, "tasks": tasks}
    path.write_text(json.dumps([play]))
    return path


def play(
    work: Path, fleet: fleets.Fleet, count: int, pipelining: bool, playbook: Path, *arguments: str
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of a run, and its tasks as callback/task_times.py saw them."""
    inventory = work / "inventory.json"
    inventory.write_text(json.dumps(fleet.inventory(count)))
    (work / "ansible.cfg").touch()  # Ansible's defaults, whatever is configured elsewhere
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACKS_ENABLED": "task_times",
        "ANSIBLE_CALLBACK_PLUGINS": str(nodes.TOP / "benchmarks/callback"),
        "ANSIBLE_COLLECTIONS_PATH": str(nodes.TOP / ".cache/collections"),
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_HOME": str(work / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": str(pipelining).lower(),
        "ANSIBLE_REMOTE_TEMP": str(work / "remote"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(work / "ssh"),
        "TASK_TIMES": str(work / "times.json"),
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory)]
    command += ["-e", "gpu_node_batches=100%", *arguments, str(playbook)]
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    took = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError("ansible-playbook failed: %s%s" % (done.stdout[-8000:], done.stderr))
    return took, json.loads((work / "times.json").read_text())
