# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The duration of a site.yml run without changes, compared with as many ping tasks, and with verify.yml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import fleets
import nodes
import tables

COUNTS = (1, 4, 16)
FORKS = 16
REPEATS, MANY = 3, 16  # with many nodes, one run is an average
PLAYBOOK, VERIFY = nodes.TOP / "playbooks" / "site.yml", nodes.TOP / "playbooks" / "verify.yml"
CONTROLLER = "controller"
COLUMNS = ("nodes", "pipelining", "seconds", "per node", "tasks", "on the node")
COLUMNS += ("pings", "relative", "verify", "relative to it")

Task = dict[str, Any]


class Measured(NamedTuple):
    """A line of the table, and the seconds of a run by the role whose modules used them."""

    cells: list[str]
    seconds: dict[str, float]


def measure(small: bool) -> str:
    counts = [1] if small else nodes.counts(COUNTS)
    done: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder, fleets.of(max(counts), small) as fleet:
        work = Path(folder)
        print("... the first run, which provisions %d nodes" % max(counts), flush=True)
        play(work, fleet, max(counts), True, PLAYBOOK, *fleet.options)
        for count in counts:
            for pipelining in (True,) if small else (True, False):
                done.append(measured(work, fleet, count, pipelining, 1 if small or count >= MANY else REPEATS))
                print("... " + " ".join(done[-1].cells), flush=True)
    users = list(done[0].seconds)
    return tables.table(
        "A second run of site.yml: nodes with eight GPUs, forks %d" % FORKS,
        [*COLUMNS, *users],
        [[*each.cells, *(share(each, user) for user in users)] for each in done],
        "Nodes: %s; they share %d cores with Ansible. Tasks: not skipped, per node; on the node: tasks that run a module "
        "there. Pings: the duration of the same number of ansible.builtin.ping tasks. Verify: that of verify.yml. Below "
        "%d nodes, the fastest of %d runs counts. The other columns are shares of the time: modules on the node by role, "
        "and the controller, including skipped tasks." % (fleet.what, os.cpu_count() or 0, MANY, REPEATS),
    )


def measured(work: Path, fleet: fleets.Fleet, count: int, pipelining: bool, repeats: int) -> Measured:
    """Measure runs, pings and verify.yml alternately. The fastest counts, because other load only makes it slower."""
    runs, pings, verifications = [], [], []
    for _number in range(repeats):
        runs.append(play(work, fleet, count, pipelining, PLAYBOOK, *fleet.options))
        on_node = on_the_node(runs[-1][1])
        pings.append(play(work, fleet, count, pipelining, ping(work, on_node))[0])
        verifications.append(play(work, fleet, count, pipelining, VERIFY, *fleet.options)[0])
    took, tasks = min(runs, key=lambda run: run[0])
    cells = [str(count), "on" if pipelining else "off", "%.1f" % took, "%.2f" % (took / count)]
    cells += [str(sum(1 for task in tasks if task["hosts"])), str(on_the_node(tasks)), "%.1f" % min(pings)]
    cells += ["%.2fx" % (took / min(pings))]
    cells += ["%.1f" % min(verifications), "%.2fx" % (took / min(verifications))]
    seconds: dict[str, float] = {}
    for task in tasks:
        user = task["role"] if task["modules"] else CONTROLLER
        seconds[user] = seconds.get(user, 0.0) + task["seconds"]
    return Measured(cells, dict(sorted(seconds.items(), key=lambda each: each[0] == CONTROLLER)))


def share(each: Measured, user: str) -> str:
    return "%.0f %%" % (100 * each.seconds.get(user, 0.0) / sum(each.seconds.values()))


def on_the_node(tasks: list[Task]) -> int:
    """Return the number of tasks that ran a module on the node. Fail if one of them changed something."""
    if any(task["changed"] for task in tasks):
        raise RuntimeError("the second run changed something: %s" % [task for task in tasks if task["changed"]])
    return sum(1 for task in tasks if task["modules"])


def ping(work: Path, count: int) -> Path:
    """Write a playbook with ``count`` ping tasks."""
    path = work / "ping.json"
    tasks = [{"name": "Ping %d" % number, "ansible.builtin.ping": {}} for number in range(count)]
    play = {"name": "Ping", "hosts": "gpu_nodes", "gather_facts": False, "become": True, "tasks": tasks}
    path.write_text(json.dumps([play]))
    return path


def play(
    work: Path, fleet: fleets.Fleet, count: int, pipelining: bool, playbook: Path, *arguments: str
) -> tuple[float, list[Task]]:
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
