# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of site.yml costs where there is nothing to do, beside as many tasks that do nothing.

The nodes are simulated ones on this machine, so that all of them share its processors, and only those tasks are run
that change no machine: the checks before, the MIG layout, and the verification (tags mig and verify).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import nodes
import tables

COUNTS = (1, 4, 16)
FORKS = 16
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 4}}]
PLAYBOOK = nodes.TOP / "playbooks" / "site.yml"
TAGS = ["--tags", "mig,verify"]
# Actions that run on the controller alone.
CONTROLLER = ("assert", "debug", "fail", "import_role", "include_role", "include_tasks", "set_fact", "validate_argument_spec")
SHARES = {"facts": "gpufleet.node.nvidia_driver_facts", "nvidia_mig": "gpufleet.node.nvidia_mig"}


def measure() -> str:
    rows = []
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder, ExitStack() as stack:
        fleet = [stack.enter_context(nodes.node("--gpus", "8", "--board", "A100-80GB")) for _n in range(max(COUNTS))]
        work = Path(folder)
        play(work, fleet, True, PLAYBOOK, *TAGS)  # the first run, which does the work
        for count in COUNTS:
            for pipelining in (True, False):
                rows.append(row(work, fleet[:count], pipelining))
    return tables.table(
        "A second run of site.yml (tags mig, verify) on nodes with eight GPUs, forks %d" % FORKS,
        ["nodes", "pipelining", "seconds", "a node", "tasks", "with a module", "as many pings", "relative", *SHARES],
        rows,
        "Tasks are those of one node. Pings: so many tasks of ansible.builtin.ping as there are tasks with a module. "
        "The last columns are shares of the time of all tasks.",
    )


def row(work: Path, fleet: list[Path], pipelining: bool) -> list[str]:
    took, tasks = play(work, fleet, pipelining, PLAYBOOK, *TAGS)
    if any(task["changed"] for task in tasks):
        raise RuntimeError("the second run changed something: %s" % [task for task in tasks if task["changed"]])
    ran = [task for task in tasks if task["hosts"]]
    modules = [task for task in ran if task["action"].removeprefix("ansible.builtin.") not in CONTROLLER]
    total = sum(task["seconds"] for task in tasks)
    shares = [sum(task["seconds"] for task in ran if task["action"] == action) / total for action in SHARES.values()]
    pings, _tasks = play(work, fleet, pipelining, ping(work, len(modules)))
    return [
        str(len(fleet)), "on" if pipelining else "off", "%.1f" % took, "%.2f" % (took / len(fleet)), str(len(ran)),
        str(len(modules)), "%.1f" % pings, "%.2fx" % (took / pings), *("%.0f %%" % (100 * share) for share in shares),
    ]


def ping(work: Path, count: int) -> Path:
    """A playbook of so many pings."""
    path = work / "ping.json"
    tasks = [{"name": "Ping %d" % number, "ansible.builtin.ping": {}} for number in range(count)]
    path.write_text(json.dumps([{"name": "Ping", "hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}]))
    return path


def play(work: Path, fleet: list[Path], pipelining: bool, playbook: Path, *arguments: str) -> tuple[float, list[dict]]:
    """Seconds of a run, and its tasks as callback/task_times.py saw them."""
    inventory = work / "inventory.json"
    hosts = {
        "node%d" % number: {
            "ansible_python_interpreter": str(nodes.interpreter(path)),
            "nvidia_mig_lock_path": str(path / "lock"),
        }
        for number, path in enumerate(fleet)
    }
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "gpu_node_boards": ["A100-80GB"] * 8,
        "nvidia_mig_boot": False,
        "nvidia_mig_layout": LAYOUT,
    }
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": hosts, "vars": variables}}))
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
        "TASK_TIMES": str(work / "times.json"),
    }
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "-e", "gpu_node_batches=100%"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, *arguments, playbook], env=environment, capture_output=True, check=False, text=True
    )
    took = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError("ansible-playbook failed: %s%s" % (done.stdout, done.stderr))
    return took, json.loads((work / "times.json").read_text())
