# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet on the local machine: several simulated nodes that Ansible uses in parallel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "lab"))

from gpulab import controller

NVSIM = TOP / "simulator" / "bin" / "nvsim"
PLAYBOOKS = TOP / "playbooks"

# Before ansible-core 2.19, messages are printed as JSON alone.
ESCAPED = re.compile(r'\\(["\\n])')

# A host's Python interpreter, which runs everything on the host's simulated node.
INTERPRETER = """#!/bin/sh
%s
exec "%s" "$@"
"""


class Run(t.NamedTuple):
    """Status and output of a playbook run."""

    status: int
    output: str

    def count(self, host: str, what: str) -> int:
        recap = self.output[self.output.rindex("PLAY RECAP") :]
        found = re.search(r"^%s .*\b%s=(\d+)" % (re.escape(host), what), recap, re.MULTILINE)
        if found is None:
            pytest.fail("no %s of %s in\n%s" % (what, host, self.output), pytrace=False)
        return int(found.group(1))

    def stats(self) -> t.Dict[str, t.Any]:
        """What later steps of a workflow get, which needs show_custom_stats."""
        found = re.search(r"^\tRUN: (.*)$", self.output, re.MULTILINE)
        return t.cast("t.Dict[str, t.Any]", json.loads(found.group(1))) if found else {}


class Fleet:
    """Hosts of the group gpu_nodes: simulated nodes, and hosts without a driver."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.environment: t.Dict[str, str] = {}
        self.hosts: t.Dict[str, t.Dict[str, t.Any]] = {}
        self.variables: t.Dict[str, t.Any] = {
            "ansible_connection": "local",
            "ansible_become": False,  # the user who runs the tests is the simulated node's root
            "ansible_python_interpreter": sys.executable,
            # The local machine's systemd and containers are not simulated.
            "nvidia_mig_boot": False,
            "nvidia_container_toolkit_runtimes": [],
            # The driver is simulated, and the machine has no packages of the container toolkit.
            "gpu_node_roles": ["gpu_node", "nvidia_mig"],
            "nvidia_container_toolkit_cdi": False,
            # No test downloads the vendor's keys, and none installs packages.
            "nvidia_driver_repository_key": "http://127.0.0.1:1/key",
            "nvidia_container_toolkit_repository_key": "http://127.0.0.1:1/key",
        }

    def node(self, name: str, *arguments: str, **variables: t.Any) -> None:
        """Add a simulated node. The arguments are those of nvsim create."""
        self.nvsim("create", name, "--driver", "550.163.01", "--seed", name, *arguments)
        exports = subprocess.run(
            [NVSIM, "run", self.work / name, "--", "sh", "-c", "export -p | grep -E ' (NVSIM_|LD_LIBRARY_PATH|PATH)'"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        interpreter = self.work / name / "python"
        interpreter.write_text(INTERPRETER % (exports, sys.executable))
        interpreter.chmod(0o755)
        self.hosts[name] = {
            "ansible_python_interpreter": str(interpreter),
            "nvidia_mig_lock_path": str(self.work / name / "lock"),
            "nvidia_mig_record_path": str(self.work / name / "records"),
            **variables,
        }

    def host(self, name: str, **variables: t.Any) -> None:
        """Add a host without a driver."""
        self.hosts[name] = variables

    def nvsim(self, command: str, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [NVSIM, command, self.work / name, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail("nvsim %s: %s" % (command, done.stdout))
        return done.stdout

    def instances(self, name: str) -> t.List[t.List[str]]:
        """Return profile and start of the GPU instances of each GPU of a node."""
        return [
            sorted("%s at %d" % (gi["profile"], gi["start"]) for gi in gpu["gpu_instances"])
            for gpu in json.loads(self.nvsim("show", name, "--json"))["gpus"]
        ]

    def play(self, playbook: t.Union[str, Path], *arguments: str, fails: bool = False, **variables: t.Any) -> Run:
        """Run a playbook by path or by its name in the collection. The variables apply to all hosts."""
        inventory = self.work / "inventory.json"
        inventory.write_text(json.dumps({"gpu_nodes": {"hosts": self.hosts, "vars": {**self.variables, **variables}}}))
        run = ansible_playbook(self.work, "-i", inventory, *arguments, playbook, **self.environment)
        if (run.status != 0) != fails:
            pytest.fail("ansible-playbook ended with status %d\n%s" % (run.status, run.output), pytrace=False)
        return run


def ansible_playbook(work: Path, *arguments: t.Union[str, Path], **others: str) -> Run:
    """``others`` are environment variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment.update(
        **controller.environment(),
        PATH="%s:%s" % (Path(sys.executable).parent, os.environ["PATH"]),
        ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
        ANSIBLE_HOME=str(work / "ansible"),
        ANSIBLE_REMOTE_TEMP=str(work / "remote"),
        ANSIBLE_PIPELINING="true",
        ANSIBLE_INJECT_FACT_VARS="false",
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_SHOW_CUSTOM_STATS="true",
    )
    environment.update(others)
    done = subprocess.run(
        ["ansible-playbook", *arguments],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert "[DEPRECATION WARNING]" not in done.stdout, done.stdout
    return Run(done.returncode, ESCAPED.sub(lambda found: found[1].replace("n", "\n"), done.stdout))


@pytest.fixture(name="fleet")
def fixture_fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)
