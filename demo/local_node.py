# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated node on the local machine, with its state in a directory. Needs no root privileges."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

import programs
from node import Node

import playbooks

NVSIM = programs.TOP / "simulator/bin/nvsim"


class LocalNode(Node):
    """Programs that run on the node load the simulated driver library."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = playbooks.environment(folder, programs.TOP / "demo/inventory/here.yml")
        self._environment["ANSIBLE_REMOTE_TEMP"] = str(folder / "ansible")
        fetched = list(programs.CACHE.glob("nvidia-smi/*/nvidia-smi"))
        self.has_nvidia_smi = bool(fetched or shutil.which("nvidia-smi"))

    def on_node(self, command: Sequence[str]) -> Sequence[str | Path]:
        return [sys.executable, NVSIM, "run", self._folder / "node", "--", *command]

    def nvsim(self, verb: str, *arguments: str) -> str:
        return programs.checked([sys.executable, NVSIM, verb, self._folder / "node", *arguments])

    def run_playbook(self, words: Sequence[str], expect: int, part: playbooks.Part) -> playbooks.Run:
        local = ["-e", "nvidia_mig_lock_path=%s/lock nvidia_mig_record_path=%s/records" % ((self._folder,) * 2)]
        return playbooks.run([*words, *local], self._environment, part=part, expect=expect, before=self.on_node([]))

    @contextmanager
    def job(self) -> Iterator[int]:
        process = subprocess.Popen(["sleep", "600"])
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()
