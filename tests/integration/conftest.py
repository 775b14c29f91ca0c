# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated nodes, and Ansible runs on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "lab"))

from gpulab import controller

NVSIM = TOP / "simulator" / "bin" / "nvsim"
DRIVER_VERSION = "550.163.01"
# Output that fails a test: these playbooks must not cause warnings.
UNWANTED = ("[DEPRECATION WARNING]", "[ERROR]: Task failed: Action failed: The conditional check")


class Node:
    """A simulated node: the local machine with a simulated driver."""

    def __init__(self, path: Path, work: Path) -> None:
        self.path = path
        self.work = work
        self.python = sys.executable

    def nvsim(self, command: str, *arguments: str) -> str:
        """Run nvsim on the node and return its output."""
        done = subprocess.run(
            [NVSIM, command, self.path, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail("nvsim %s: %s" % (command, done.stdout))
        return done.stdout

    def instances(self) -> t.List[t.List[str]]:
        """Return profile and start of the GPU instances of each GPU."""
        return [
            sorted("%s at %d" % (gi["profile"], gi["start"]) for gi in gpu["gpu_instances"])
            for gpu in json.loads(self.nvsim("show", "--json"))["gpus"]
        ]

    def play(
        self, playbook: Path, variables: t.Dict[str, t.Any], *arguments: str, fails: bool = False, root: bool = True
    ) -> str:
        """Run a playbook on the node, the only host of the group gpu_nodes, and return its output."""
        inventory = self.work / "inventory.json"
        inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"node": self._host()}}}))
        extra = self.work / "variables.json"
        extra.write_text(json.dumps(variables))
        done = subprocess.run(
            [NVSIM, "run", *([] if root else ["--user"]), self.path, "--", "ansible-playbook", "-i", inventory]
            + ["-e", "@%s" % extra, *arguments, playbook],
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if (done.returncode != 0) != fails:
            pytest.fail("ansible-playbook ended with status %d\n%s" % (done.returncode, done.stdout), pytrace=False)
        for words in UNWANTED:
            if words in done.stdout:
                pytest.fail("ansible-playbook printed %s\n%s" % (words, done.stdout), pytrace=False)
        return done.stdout

    def _host(self) -> t.Dict[str, t.Any]:
        return {
            "ansible_connection": "local",
            "ansible_become": False,  # the user who runs the tests is the simulated node's root
            "ansible_python_interpreter": self.python,
            # Only the GPUs are simulated, so the role must not change the rest of the machine.
            "nvidia_mig_boot": False,
            "nvidia_mig_cdi_refresh": False,
            "nvidia_mig_clients": [],
            "nvidia_mig_mode_clients": [],
        }

    def _environment(self) -> t.Dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return dict(
            kept,
            **controller.environment(),
            PATH="%s:%s" % (Path(sys.executable).parent, os.environ["PATH"]),
            ANSIBLE_COLLECTIONS_PATH=str(TOP / ".cache" / "collections"),
            ANSIBLE_HOME=str(self.work / "ansible"),
            ANSIBLE_REMOTE_TEMP=str(self.work / "remote"),
            ANSIBLE_ASYNC_DIR=str(self.work / "async"),
            ANSIBLE_PIPELINING="true",
            ANSIBLE_INJECT_FACT_VARS="false",
            ANSIBLE_NOCOLOR="1",
        )


@pytest.fixture(name="make_node")
def fixture_make_node(tmp_path: Path) -> t.Callable[..., Node]:
    def make(*arguments: str) -> Node:
        node = Node(tmp_path / "node", tmp_path)
        node.nvsim("create", "--driver", DRIVER_VERSION, *arguments)
        return node

    return make


@pytest.fixture(name="workload")
def fixture_workload() -> t.Iterator[int]:
    """Yield the id of an idle process that ends with the test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def fetched(script: str, *arguments: str) -> Path:
    """Return a vendor's file that a script downloads. Skip the test if the download fails."""
    done = subprocess.run(
        [TOP / "scripts" / script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip((done.stderr.strip().splitlines() or ["%s failed" % script])[-1])
    return Path(done.stdout.strip().splitlines()[-1])


@pytest.fixture(name="nvidia_smi", scope="session")
def fixture_nvidia_smi() -> Path:
    """Debian's real nvidia-smi. nvsim finds it in .cache."""
    return fetched("fetch-nvidia-smi", DRIVER_VERSION)


@pytest.fixture(name="libnvidia_ml", scope="session")
def fixture_libnvidia_ml() -> Path:
    """Debian's real libnvidia-ml.so.1."""
    return fetched("fetch-nvidia-smi", "--library", DRIVER_VERSION)
