# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface to a simulated node that both demos use."""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Sequence

import programs
import screen

import playbooks


class Node(ABC):
    """A node with simulated GPUs."""

    has_nvidia_smi = True

    @abstractmethod
    def on_node(self, command: Sequence[str]) -> Sequence[str | Path]:
        """Return the command line that runs a command on the node."""

    @abstractmethod
    def nvsim(self, verb: str, *arguments: str) -> str:
        """Run the simulator's command and return its output."""

    @abstractmethod
    def run_playbook(self, words: Sequence[str], expect: int, part: playbooks.Part) -> playbooks.Run:
        """Run a playbook for the node."""

    @abstractmethod
    def job(self) -> AbstractContextManager[int]:
        """Run a process on the node that represents a GPU workload, and yield its process id."""

    def run(self, command: Sequence[str], shown: str = "") -> str:
        """Run a program on the node and return its output. Print both if ``shown`` is given."""
        output = programs.checked(self.on_node(command))
        if shown:
            screen.command(shown)
            screen.output(output)
        return output

    def playbook(self, words: str, expect: int = 0, part: playbooks.Part = playbooks.no_parts) -> playbooks.Run:
        screen.command("ansible-playbook " + words)
        return self.run_playbook(["ansible-playbook", *shlex.split(words)], expect, part)

    def playbook_again(self, words: str, part: playbooks.Part = playbooks.no_parts) -> None:
        """Run a playbook again, which must change nothing."""
        run = self.playbook(words, part=part)
        run.show()
        if run.changed():
            raise screen.DemoError("the second run changed something")

    def nvidia_smi(self, gpus: Sequence[int]) -> None:
        """Print the real nvidia-smi's list of some GPUs, if the program could be downloaded."""
        if not self.has_nvidia_smi:
            return
        blocks = re.split(r"^(?=GPU )", self.run(["nvidia-smi", "-L"]), flags=re.MULTILINE)[1:]
        chosen = [block if index in gpus else None for index, block in enumerate(blocks)]
        lines = [block or "..." for block, last in zip(chosen, [*[""], *chosen]) if block or last]
        screen.command("nvidia-smi -L")
        screen.output("\n".join(line.rstrip() for line in lines))

    def gpus(self) -> list[dict[str, Any]]:
        """Return the state of the GPUs from the simulator."""
        found: list[dict[str, Any]] = json.loads(self.nvsim("show", "--json"))["gpus"]
        return found

    def uuids(self, gpu: int) -> dict[int, str]:
        """Return the MIG UUIDs of a GPU by GPU instance id."""
        instances = self.gpus()[gpu]["gpu_instances"]
        return {instance["id"]: instance["compute_instances"][0]["uuid"] for instance in instances}
