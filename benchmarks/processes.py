# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time, CPU time and memory that a program and its children use."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import psutil
from gpulab import control_plane

SAMPLE = 0.25  # seconds between two readings of the memory


class Usage(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_mib: float  # of all processes together; pages that they share count once


def measured(log: Path, environment: Mapping[str, str], command: Sequence[str]) -> Usage:
    """Run a program to its end. CPU time and memory include its children."""
    started, peak = time.monotonic(), 0
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            preexec_fn=control_plane.end_with_parent,
        )
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            peak = max(peak, _memory(process.pid))
            time.sleep(SAMPLE)
    except BaseException:
        process.kill()
        raise
    took = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("%s ended with %d:\n%s" % (command[0], process.returncode, log.read_text()[-8000:]))
    return Usage(took, usage.ru_utime + usage.ru_stime, peak / 1024**2)


def _memory(root: int) -> int:
    """The memory in bytes of a process and its descendants. Each process has its share of common pages."""
    found = 0
    with suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(root), *psutil.Process(root).children(recursive=True)):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found += process.memory_full_info().pss
    return found
