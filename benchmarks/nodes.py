# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated nodes for benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

TOP = Path(__file__).resolve().parent.parent
NVSIM = TOP / "simulator/bin/nvsim"


def counts(default: Sequence[int]) -> list[int]:
    """Return the numbers of nodes in BENCH_NODES, or the default."""
    return [int(count) for count in os.environ.get("BENCH_NODES", "").split()] or list(default)


def nvsim(verb: str, node: Path, *arguments: str) -> str:
    command = [sys.executable, NVSIM, verb, node, *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError("nvsim %s: %s" % (verb, done.stderr.strip()))
    return done.stdout


@contextmanager
def node(*arguments: str) -> Iterator[Path]:
    """Yield a new node, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        path = Path(folder) / "node"
        nvsim("create", path, "--driver", "550.163.01", *arguments)
        yield path


def on_node(path: Path, script: str, arguments: Sequence[str] = ()) -> str:
    """Run a Python script of this directory on the node and return its output.

    A separate process is necessary, because the library is found through the environment.
    """
    done = subprocess.run(
        [sys.executable, NVSIM, "run", path, "--", sys.executable, TOP / "benchmarks" / script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "%s:%s" % (TOP / ".cache/collections", TOP / "benchmarks")},
        check=True,
    )
    return done.stdout


def interpreter(path: Path) -> Path:
    """Return a Python interpreter that runs on the node. With it, Ansible can use several nodes in parallel."""
    found = path / "python"
    if not found.exists():
        command = [sys.executable, NVSIM, "run", path, "--"]
        command += ["sh", "-c", "export -p | grep -E ' (NVSIM_[A-Z]+|LD_LIBRARY_PATH|PATH)='"]
        exports = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.write_text('#!/bin/sh\n%sexec "%s" "$@"\n' % (exports, sys.executable))
        found.chmod(0o755)
    return found
