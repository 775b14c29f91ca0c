# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The duration of a site.yml run without changes, compared with the same number of ping tasks."""

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
MOST = 40  # maximum number of tasks on a node without changes
REPEATS, MANY = 3, 16  # with many nodes, one run is an average
PLAYBOOK = nodes.TOP / "playbooks" / "site.yml"
# Actions that run only on the controller.
CONTROLLER = (
    *("assert", "debug", "fail", "import_role", "include_role", "include_tasks", "include_vars", "meta", "set_fact"),
    "validate_argument_spec",
    "gpufleet.node.gpu_node_inventory",
    "gpufleet.node.gpu_node_problems",
)
FACTS = ("service_facts", "setup", "gpufleet.node.nvidia_driver_facts")
# Name prefixes of task files for packages, their sources and their keys.
PACKAGES = (
    "apt",
    "before",
    "bring",
    "install",
    "key",
    "list",
    "note",
    "offers",
    "packages",
    "record",
    "repository",
    "sources",
)
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
        ["nodes", "pipelining", "seconds", "per node", "tasks", "on the node", "pings", "relative", *KINDS],
        rows,
        "Nodes: %s; they share %d cores with Ansible. Tasks: not skipped, per node; on the node: tasks that run a module "
        "there. Pings: the duration of the same number of ansible.builtin.ping tasks. Below %d nodes, the fastest of %d "
        "runs counts. The other columns are shares of the time. Packages include sources and keys; controller includes "
        "skipped tasks." % (fleet.what, os.cpu_count() or 0, MANY, REPEATS),
    )


def row(work: Path, fleet: fleets.Fleet, count: int, pipelining: bool) -> list[str]:
    """Measure runs and pings alternately. The fastest run counts, because other load only makes a run slower."""
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
    """Return the number of tasks that ran a module on the node. Fail if one of them changed something."""
    if any(task["changed"] for task in tasks):
        raise RuntimeError("the second run changed something: %s" % [task for task in tasks if task["changed"]])
    there = sum(1 for task in tasks if task["hosts"] and kind(task) != "controller")
    if there > MOST:
        raise RuntimeError("the second run takes %d tasks on a node; the maximum is %d" % (there, MOST))
    return there


def kind(task: dict[str, Any]) -> str:
    """Return the category of a task."""
    action = task["action"].removeprefix("ansible.builtin.")
    if action in CONTROLLER or not task["hosts"]:
        return "controller"
    if action in FACTS:
        return "facts"
    if action == "gpufleet.node.nvidia_mig":
        return "nvidia_mig"
    return "packages" if task["file"].startswith(PACKAGES) else "other modules"


def ping(work: Path, count: int) -> Path:
    """Write a playbook with ``count`` ping tasks."""
    path = work / "ping.json"
    tasks = [{"name": "Ping %d" % number, "ansible.builtin.ping": {}} for number in range(count)]
    play = {"name": "Ping", "hosts": "gpu_nodes", "gather_facts": False, "become": True, "tasks": tasks}
    path.write_text(json.dumps([play]))
    return path


def play(
    work: Path, fleet: fleets.Fleet, count: int, pipelining: bool, playbook: Path, *arguments: str
) -> tuple[float, list[dict[str, Any]]]:
    """Return the duration of a run in seconds, and its tasks from callback/task_times.py."""
    inventory = work / "inventory.json"
    inventory.write_text(json.dumps(fleet.inventory(count)))
    (work / "ansible.cfg").touch()  # Ansible's defaults, independent of the user's configuration
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
