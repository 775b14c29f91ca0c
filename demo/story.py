# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo: a day in the life of a GPU node, told through the real playbook, modules and nvidia-smi."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache"
NVSIM = TOP / "tests/simulator/nvsim"
DRIVER = "550.163.01"
WIDTH = 100


class DemoError(Exception):
    """The demo did not go as it is told."""


def say(text: str) -> None:
    """A paragraph of the story."""
    print()
    print(textwrap.fill(" ".join(text.split()), WIDTH))
    print(flush=True)


def chapter(number: int, title: str) -> None:
    print()
    print(("-- %d. %s " % (number, title)).ljust(WIDTH, "-"), flush=True)


def show(command: str, output: str) -> None:
    """A command as a reader would type it, and what it printed."""
    print("  $ " + command)
    print(textwrap.indent(output.rstrip(), "  "), flush=True)


class Node:
    """The simulated node: a folder with a state file, and programs that run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ansible.cfg").touch()  # Ansible's defaults, whatever the reader has configured
        self.environment = {
            **os.environ,
            "PATH": "%s:%s" % (Path(sys.executable).parent, os.environ.get("PATH", os.defpath)),
            "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
            "ANSIBLE_INVENTORY": str(TOP / "demo/inventory.yml"),
            "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
            "ANSIBLE_REMOTE_TEMP": str(folder / "ansible"),
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
            "ANSIBLE_DISPLAY_OK_HOSTS": "0",
            "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
            "ANSIBLE_DEPRECATION_WARNINGS": "0",
            "ANSIBLE_INJECT_FACT_VARS": "0",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
        }

    def nvsim(self, verb: str, *arguments: str) -> str:
        status, output = self._call([sys.executable, NVSIM, verb, self.folder / "node", *arguments])
        if status:
            raise DemoError("nvsim %s failed: %s" % (verb, output.strip()))
        return output

    def run(self, command: Sequence[str], expect: int = 0) -> str:
        """What a program prints on the node, warnings included."""
        status, output = self._call([sys.executable, NVSIM, "run", self.folder / "node", "--", *command])
        if (status != 0) != (expect != 0):
            raise DemoError("%s ended with %d:\n%s" % (" ".join(command), status, output))
        return output

    def _call(self, command: Sequence[str | Path]) -> tuple[int, str]:
        """Runs a program in a process group of its own: if the demo is stopped, all that it started goes with it."""
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            process_group=0,
        )
        try:
            output, _nothing = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        return process.returncode, output

    def playbook(self, layout: str, *options: str, expect: int = 0) -> str:
        command = ["ansible-playbook", "playbooks/mig.yml", "-e", "@demo/layouts/%s.yml" % layout, *options]
        local = ["-e", "nvidia_mig_lock_path=%s" % (self.folder / "lock")]
        os.chdir(TOP)
        output = self.run([*command, *local], expect)
        show(" ".join(command), _tidy(output))
        return output

    def nvidia_smi(self, gpus: Sequence[int]) -> None:
        """The real nvidia-smi's listing of some GPUs, if the program could be fetched."""
        if not list(CACHE.glob("nvidia-smi/*/nvidia-smi")) and not shutil.which("nvidia-smi"):
            return
        blocks = re.split(r"^(?=GPU )", self.run(["nvidia-smi", "-L"]), flags=re.MULTILINE)[1:]
        chosen = [block if index in gpus else None for index, block in enumerate(blocks)]
        lines = [block or "..." for block, last in zip(chosen, [*[""], *chosen]) if block or last]
        show("nvidia-smi -L", "\n".join(line.rstrip() for line in lines))

    def state(self) -> dict:
        return json.loads(self.nvsim("show", "--json"))


def _tidy(output: str) -> str:
    """Ansible's output without empty lines, rows of asterisks, names of included files, and what it says twice."""
    output = re.sub(r"^\[ERROR\]: .*?\^ column \d+$", "", output, flags=re.MULTILINE | re.DOTALL)
    lines = (re.sub(r" \*{3,}$", "", line) for line in output.splitlines())
    return "\n".join(line for line in lines if line.strip() and not line.startswith("included: "))


def changed(output: str) -> int:
    found = re.search(r"changed=(\d+)", output)
    if found is None:
        raise DemoError("Ansible printed no recap:\n" + output)
    return int(found.group(1))


@contextmanager
def process() -> Iterator[int]:
    """Something that runs, to stand for a job on a GPU instance."""
    job = subprocess.Popen(["sleep", "600"])
    try:
        yield job.pid
    finally:
        job.kill()
        job.wait()


def uuids(node: Node, gpu: int) -> dict[int, str]:
    """MIG UUIDs of a GPU, by GPU instance id."""
    instances = node.state()["gpus"][gpu]["gpu_instances"]
    return {gi["id"]: gi["compute_instances"][0]["uuid"] for gi in instances}


def tell(node: Node) -> None:
    chapter(1, "A node with eight GPUs")
    node.nvsim("create", "--gpus", "8", "--board", "A100-80GB", "--driver", DRIVER)
    say(
        """This is a simulated node: eight A100 80GB behind a stand-in for NVIDIA's driver library that refuses what real
        hardware refuses. Everything above it is real: Ansible, the playbook, the modules, NVIDIA's Python bindings, and
        nvidia-smi. All GPUs are whole; nothing is partitioned yet."""
    )
    node.nvidia_smi(range(8))

    chapter(2, "Look before you leap: check mode")
    say(
        """The layout asks for a mix: GPUs 0 to 3 in four instances each, 4 and 5 in seven, 6 as one large instance, 7 left
        whole. Check mode plans every GPU, writes nothing, and draws what would change. Lines with a minus are the GPUs as
        they are, lines with a plus as they would be; a cell is one GPU instance, as wide as its share of memory."""
    )
    node.playbook("morning", "--check", "--diff")
    if any(gpu["gpu_instances"] or gpu["mode_current"] for gpu in node.state()["gpus"]):
        raise DemoError("check mode changed a GPU")

    chapter(3, "For real")
    say(
        """The same command without --check. All eight GPUs are changed side by side, every instance at a placement that
        was worked out beforehand, and read back afterwards."""
    )
    node.playbook("morning")
    node.nvidia_smi([0, 6, 7])

    chapter(4, "And again: nothing to do")
    say(
        """A second run finds every GPU as it should be and touches none. That is what makes it safe to run from a
        schedule, or by three colleagues at once."""
    )
    if changed(node.playbook("morning")):
        raise DemoError("the second run changed something")

    chapter(5, "Change the layout while somebody works")
    with process() as pid:
        work(node, pid)

    chapter(6, "A layout that cannot exist")
    say(
        """Four times 1g.10gb beside a 4g.40gb looks harmless. It is refused before anything is touched, with the reason
        and the nearest layout that fits."""
    )
    before = node.state()["gpus"]
    node.playbook("impossible", expect=2)
    if node.state()["gpus"] != before:
        raise DemoError("the refused layout changed a GPU")

    say(
        """That is the whole idea: say what a node should look like, see what that would do, and get it with the least
        possible disturbance, or a clear no. The commands are shown as you would type them with the collection installed
        and your own inventory: README.md says how. To play on a simulated node: tests/simulator/README.md.
        `make test` proves the rest."""
    )


def work(node: Node, pid: int) -> None:
    """The chapter in which an instance is in use."""
    before = uuids(node, 0)
    busy = max(before)  # the id of a GPU instance names its place; the highest is the last 1g.10gb of the map
    node.nvsim("attach", "--gpu", "0", "--gi", str(busy), "--pid", str(pid), "--name", "training")
    say(
        """A training job runs on a small instance of GPU 0, the second 1g.10gb of its map (GPU instance %d). In the evening GPU 0 should trade its
        2g.20gb for two more small ones, and GPU 4 two small ones for a 2g.20gb. The usual tools would destroy every
        instance on both GPUs for that, or fail because of the job. Here the plan keeps whatever already matches, and an
        instance in use always."""
        % busy
    )
    node.playbook("evening", "--diff")
    after = uuids(node, 0)
    stayed = sorted(gi for gi in before if after.get(gi) == before[gi])
    if busy not in stayed:
        raise DemoError("the busy instance did not survive")
    if pid not in [process["pid"] for process in node.state()["gpus"][0]["processes"]]:
        raise DemoError("the job lost its instance")
    say(
        """GPU 0 kept %d of its %d instances, the one in use among them. Its UUID was and is %s: the job did not notice."""
        % (len(stayed), len(before), before[busy])
    )


def stop(number: int, _frame: object) -> None:
    """A signal ends the demo as an error does: what it started and made goes."""
    raise SystemExit(128 + number)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    with tempfile.TemporaryDirectory(prefix="gpufleet-demo-") as folder:
        try:
            tell(Node(Path(folder)))
        except DemoError as error:
            print("\nThe demo failed: %s" % error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
