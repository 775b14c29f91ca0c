# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine of the test lab with systemd, ssh, packages and simulated GPUs. Needs root and podman."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

import programs
import screen
from gpulab import serve
from node import Node

import playbooks

NAME = "gpufleet-demo"
INVENTORIES = programs.TOP / "demo" / "inventory"
LAB = programs.TOP / "tests/lab/lab"
LABNS = programs.TOP / "tests/lab/labns"
STATE = programs.CACHE / "lab"
OWNED = programs.LOG.with_name("lab-started-by-demo")  # exists while the demo is the only user of the lab
# An A100 changes its MIG mode only with a reset.
HARDWARE = ("--simulator=--activation", "--simulator=reset")
NVSIM = "/opt/gpufleet-lab/bin/nvsim"
# The node is itself a container, so containers on it need a wrapper for runc and a CDI setting. The root filesystem of
# the demo's container is one program of the node with its libraries.
CONTAINERS = """
ln -s /opt/gpufleet-lab/bin/runc /usr/local/sbin/runc
mkdir -p /etc/nvidia-container-toolkit /srv/container/etc /srv/container/proc
echo NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS=disable-device-node-modification \
  >/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
for file in /usr/bin/find $(ldd /usr/bin/find | grep -o '/[^ ]*'); do
  cp --parents --dereference "$file" /srv/container
done
"""


class LabNode(Node):
    def __init__(self, folder: Path, inventory: str) -> None:
        self._environment = playbooks.environment(folder, INVENTORIES / inventory, INVENTORIES / "lab.yml")
        self._environment["DEMO_ADDRESS"] = (STATE / "nodes" / NAME / "address").read_text()
        self._environment["DEMO_REPOSITORIES"] = programs.checked([LAB, "serve"]).splitlines()[-1]
        self.has_nvidia_smi = bool(list(programs.CACHE.glob("nvidia-smi/*/nvidia-smi")))

    def on_node(self, command: Sequence[str]) -> Sequence[str | Path]:
        return [LABNS, "podman", "exec", NAME, *command]

    def nvsim(self, verb: str, *arguments: str) -> str:
        return self.run([NVSIM, verb, "/var/lib/nvsim", *arguments])

    def run_playbook(self, words: Sequence[str], expect: int, part: playbooks.Part) -> playbooks.Run:
        return playbooks.run(words, self._environment, part=part, expect=expect)

    def reboot(self) -> None:
        screen.command("ansible gpu_nodes -m ansible.builtin.reboot")
        with screen.waiting() as wait:
            words = ["ansible", "gpu_nodes", "-m", "ansible.builtin.reboot", "-a", "reboot_timeout=120"]
            programs.checked(words, {**self._environment, "DEMO_EVENTS": os.devnull}, lambda: wait.show("rebooting"))
            programs.call(
                self.on_node(["systemctl", "is-system-running", "--wait"]), idle=lambda: wait.show("starting")
            )
            wait.done("the node has rebooted")

    @contextmanager
    def job(self) -> Iterator[int]:
        pid = int(self.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]))
        try:
            yield pid
        finally:
            programs.call(self.on_node(["kill", str(pid)]))

    def prepare_containers(self) -> None:
        self.run(["sh", "-ec", CONTAINERS])


@contextmanager
def fresh(folder: Path, inventory: str, *options: str) -> Iterator[LabNode]:
    """Yield a fresh node, and remove it afterwards. Stop the lab too if it has no other user.

    ``inventory`` is a file in demo/inventory, and ``options`` are those of `lab up`.
    """
    try:
        with screen.waiting() as wait:
            run_lab(wait, "prepare")
            if not has_other_users():
                OWNED.touch()
            run_lab(wait, "serve")
            run_lab(wait, "up", NAME, "--image", "bookworm", *HARDWARE, *options)
            wait.done("the node is up")
        yield LabNode(folder, inventory)
    finally:
        remove(folder)


def run_lab(wait: screen.Waiting, *words: str) -> None:
    """Run a command of the lab and show its progress."""
    start = programs.LOG.stat().st_size
    printed: set[str] = set()

    def idle() -> None:
        with programs.LOG.open("rb") as log:
            log.seek(start)
            steps = [line[4:] for line in log.read().decode(errors="replace").splitlines() if line.startswith("==> ")]
        for step in steps:
            if step not in printed:
                printed.add(step)
                wait.done(step)
        wait.show((["preparing", *steps])[-1])

    programs.checked([LAB, *words], idle=idle)


def has_other_users() -> bool:
    """Return whether the lab has other users: other nodes, or a web server that the demo did not start."""
    nodes = {path.name for path in (STATE / "nodes").glob("*")} - {NAME}
    return bool(nodes) or (not OWNED.exists() and bool(serve.running()))


def remove(folder: Path) -> None:
    """Remove the node. Ignore signals, so that an interrupt leaves nothing behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for path in (folder / "ssh").glob("*"):  # persistent ssh connections
        subprocess.run(["ssh", "-O", "exit", "-o", "ControlPath=%s" % path, "-"], capture_output=True, check=False)
    if not shutil.which("podman"):
        return
    whole = OWNED.exists() and not has_other_users()
    programs.checked([LAB, "down"] if whole else [LAB, "remove", NAME])
    if whole:
        OWNED.unlink()
