# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Helpers for the tests with real clients."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parents[1]
REPOSITORY = SIMULATOR.parent
sys.path.insert(0, str(SIMULATOR))

from nvsim.library import Node

__all__ = ["REPOSITORY", "SIMULATOR", "MakeNode", "Node", "Result", "Sleeper", "Smi", "data", "run_python_client"]

MakeNode = t.Callable[..., Node]
Sleeper = t.Callable[[], "subprocess.Popen[bytes]"]  # the fixture of that name
Result = subprocess.CompletedProcess  # of a program's output, as text


class Smi:
    """One version of the real nvidia-smi."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.version = program.parent.name

    def __call__(self, node: Node, *arguments: str, uid: int = 0) -> Result[str]:
        return subprocess.run(
            [str(self.program), *arguments],
            env=node.environment(uid=uid),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def ok(self, node: Node, *arguments: str) -> str:
        """Return the output; fail if the program fails."""
        result = self(node, *arguments)
        assert result.returncode == 0, result.stdout
        return result.stdout


def data(name: str) -> str:
    """Return a recorded text."""
    return (HERE / "data" / name).read_text()


def run_python_client(node: Node, program: str, *arguments: str) -> str:
    """Return the output of a program from the tests' Python environment, without a terminal."""
    environment = dict(node.environment(), TERM="dumb", COLUMNS="120", LC_ALL="C.UTF-8")
    command = [os.path.join(os.path.dirname(sys.executable), program), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
