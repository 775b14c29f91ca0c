# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets of simulated nodes for site_runs.py: machines of the test lab, or directories without root or podman."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import Any, Iterator, NamedTuple

import nodes
from gpulab import serve

BOARDS = ["A100-80GB"] * 8
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 4}}]
LAB = nodes.TOP / "tests" / "lab" / "lab"
STATE = nodes.TOP / ".cache" / "lab"
PROGRAMS = ("podman", "apt-get")


class Fleet(NamedTuple):
    """Hosts with their variables, common variables, and the options of ansible-playbook for site.yml."""

    what: str
    hosts: dict[str, dict[str, Any]]
    variables: dict[str, Any]
    options: list[str]

    def inventory(self, count: int) -> dict[str, Any]:
        hosts = dict(list(self.hosts.items())[:count])
        common = {"gpu_node_boards": BOARDS, "nvidia_mig_layout": LAYOUT, "nvidia_mig_reset": True}
        return {"gpu_nodes": {"hosts": hosts, "vars": {**common, **self.variables}}}


@contextmanager
def of(count: int, small: bool) -> Iterator[Fleet]:
    """Yield a fleet of ``count`` nodes, and remove it afterwards. A small one has no machines, which take minutes."""
    lab = not small and os.geteuid() == 0 and all(map(shutil.which, PROGRAMS))
    with (of_machines if lab else of_folders)(count) as fleet:
        yield fleet


@contextmanager
def of_folders(count: int) -> Iterator[Fleet]:
    """Yield nodes that share the local machine. Only parts of site.yml that do not change the machine run on them."""
    with ExitStack() as stack:
        paths = [stack.enter_context(nodes.node("--gpus", "8", "--board", BOARDS[0])) for _number in range(count)]
        hosts = {
            "node%d" % number: {
                "ansible_python_interpreter": str(nodes.interpreter(path)),
                "nvidia_mig_lock_path": str(path / "lock"),
                "nvidia_mig_record_path": str(path / "records"),
            }
            for number, path in enumerate(paths)
        }
        variables = {"ansible_connection": "local", "ansible_become": False, "nvidia_mig_boot": False}
        variables["gpu_node_roles"] = ["nvidia_mig"]
        what = "simulated drivers on this machine: only the tags mig and verify, no root or podman"
        yield Fleet(what, hosts, variables, ["--tags", "mig,verify"])


@contextmanager
def of_machines(count: int) -> Iterator[Fleet]:
    """Yield machines with systemd, ssh and packages, for the whole of site.yml."""
    used = bool(serve.running()) or has_nodes()
    names = ["gpufleet-bench-%d" % number for number in range(1, count + 1)]
    try:
        url = lab("serve").splitlines()[-1]
        lab("up", *names, "--image", "bookworm", "--board", "%s:%d" % (BOARDS[0], len(BOARDS)))
        hosts = {name: {"ansible_host": (STATE / "nodes" / name / "address").read_text()} for name in names}
        key = json.loads((STATE / "www" / "keys.json").read_text())["main"]["fingerprint"]
        variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(STATE / "keys" / "ssh"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            "ansible_python_interpreter": "/usr/bin/python3",
            "nvidia_driver_repository_url": url + "/cuda/debian12/x86_64",
            "nvidia_driver_repository_key_fingerprint": key,  # as for the vendor's keys
            "nvidia_container_toolkit_repository_url": url + "/toolkit/stable",
            "nvidia_container_toolkit_repository_key": url + "/toolkit/gpgkey",
            "nvidia_container_toolkit_repository_key_fingerprint": key,
        }
        yield Fleet("machines of the test lab, by ssh", hosts, variables, [])
    finally:
        lab("remove", *names)
        if not used and not has_nodes():
            lab("down")


def lab(*words: str) -> str:
    """Run a command of the lab and return its output. Progress goes to stderr."""
    done = subprocess.run([LAB, *words], stdout=subprocess.PIPE, stderr=sys.stderr, text=True, check=True)
    return done.stdout


def has_nodes() -> bool:
    return any((STATE / "nodes").glob("*"))
