# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU time of an nvidia_mig run without changes, compared with ansible.builtin.ping.

Both run from the self-contained file that Ansible copies to a node.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import nodes
import tables

RUNS = 15
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]


def measure(small: bool) -> str:
    runs, counts = (1, (1,)) if small else (RUNS, (1, 8))
    rows = [row for gpus in counts for row in measured(gpus, runs)]
    note = "" if shutil.which("nvidia-mig-parted") else "nvidia-mig-parted is not on PATH, so it was not measured."
    return tables.table(
        "No change on GPUs with seven instances each (median of %d runs)" % runs,
        ["program", "GPUs", "CPU seconds", "relative", "peak MiB"],
        rows,
        note,
    )


def measured(gpus: int, runs: int) -> list[list[str]]:
    with nodes.node("--gpus", str(gpus), "--board", "A100-80GB") as path, tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        options = {"layout": LAYOUT, "lock_path": str(work / "lock")}
        commands = {
            "ansible.builtin.ping": [sys.executable, str(packed(path, work, "ansible.builtin.ping", {}))],
            "gpufleet.node.nvidia_mig": [sys.executable, str(packed(path, work, "gpufleet.node.nvidia_mig", options))],
            **mig_parted(work),
        }
        results = json.loads(nodes.on_node(path, "module_cost.py", [json.dumps(commands), str(runs)]))
    base = results["ansible.builtin.ping"]["seconds"]
    return [
        [name, str(gpus), "%.3f" % one["seconds"], "%.2fx" % (one["seconds"] / base), "%.0f" % (one["peak_kib"] / 1024)]
        for name, one in results.items()
    ]


def packed(node: Path, work: Path, module: str, arguments: dict) -> Path:
    """Return the file that Ansible builds from a module and its arguments. To get it, run the module once."""
    kept = work / module
    (work / "ansible.cfg").touch()  # Ansible's defaults, independent of the user's configuration
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(nodes.TOP / ".cache/collections"),
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_HOME": str(work / "ansible"),
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_REMOTE_TEMP": str(kept),
    }
    ansible = Path(sys.executable).with_name("ansible")
    command = [ansible, "localhost", "-c", "local", "-e", "ansible_python_interpreter=" + sys.executable, "-m", module]
    if arguments:
        command += ["-a", json.dumps(arguments)]
    done = subprocess.run(
        [sys.executable, nodes.NVSIM, "run", node, "--", *command],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        raise RuntimeError("%s failed: %s%s" % (module, done.stdout, done.stderr))
    [found] = kept.glob("*/AnsiballZ_*.py")
    return found


def run(command: list[str]) -> tuple[float, int]:
    """Return CPU seconds and peak resident memory in KiB of one run."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read() if process.stdout else b""
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("%s ended with %d: %s" % (command, process.returncode, output.decode(errors="replace")))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def repeated(commands: dict[str, list[str]], count: int) -> dict[str, dict[str, float]]:
    """Run the commands alternately, so that noise affects all of them equally."""
    taken: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
    for _round in range(count):
        for name, command in commands.items():
            taken[name].append(run(command))
    return {
        name: {
            "seconds": statistics.median(took for took, _peak in runs),
            "peak_kib": max(peak for _took, peak in runs),
        }
        for name, runs in taken.items()
    }


def mig_parted(work: Path) -> dict[str, list[str]]:
    """Return the mig-parted command for the same layout, if it is installed."""
    program = shutil.which("nvidia-mig-parted")
    if program is None:
        return {}
    config = work / "config.json"
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": LAYOUT[0]["mig_devices"]}
    config.write_text(json.dumps({"version": "v1", "mig-configs": {"bench": [entry]}}))
    return {"nvidia-mig-parted apply": [program, "apply", "-f", str(config), "-c", "bench"]}


if __name__ == "__main__":
    json.dump(repeated(json.loads(sys.argv[1]), int(sys.argv[2])), sys.stdout)
