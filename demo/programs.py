# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs programs with their output in the demo's log, and ends them with the demo."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Callable, Mapping, Sequence

from screen import DemoError

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache"
LOG = CACHE / "demo" / "demo.log"
GRACE = 20  # seconds for an interrupted program to clean up
END_SHOWN = 40  # lines

Idle = Callable[[], None]


def log(text: str) -> None:
    with LOG.open("a", encoding="utf-8") as out:
        out.write(text.rstrip("\n") + "\n")


def call(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, idle: Idle = lambda: None
) -> tuple[int, str]:
    """Return status and output of a program. While it runs, ``idle`` is called several times per second."""
    words = [str(part) for part in command]
    log("\n$ " + " ".join(words))
    with LOG.open("ab") as out:
        start = out.tell()
        # A separate process group, so that its child processes are ended with it.
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=TOP, process_group=0
        )
        try:
            while True:
                try:
                    status = process.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    idle()
        except BaseException:
            end(process)
            raise
    idle()
    with LOG.open("rb") as written:
        written.seek(start)
        return status, written.read().decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a program, and kill it after a grace period."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def checked(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, idle: Idle = lambda: None
) -> str:
    """Return the output of a program; raise an error if it fails."""
    status, output = call(command, environment, idle)
    if status:
        raise failure(" ".join(map(str, command)), status, output)
    return output


def failure(command: str, status: int, output: str) -> DemoError:
    last_lines = "\n".join(output.rstrip().splitlines()[-END_SHOWN:])
    return DemoError("%s exited with status %d. The last lines of its output:\n\n%s\n" % (command, status, last_lines))
