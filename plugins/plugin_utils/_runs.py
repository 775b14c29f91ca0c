# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The run of ansible-playbook that holds a node: whether it is this one, still runs, or has ended."""

from __future__ import annotations

import os
import socket
import time
import typing as t
from pathlib import Path


class Run(t.NamedTuple):
    place: str = ""  # host name of the controller, and its PID namespace, which differs between containers
    pid: int = 0
    started: str = ""  # when the process started, because PIDs are used again
    written: int = 0  # when it last changed the record, in seconds since the epoch

    def __str__(self) -> str:
        return "process %d on %s" % (self.pid, self.place.partition(" ")[0] or "an unknown controller")


def current() -> Run:
    """This run. Actions run in a child process of ansible-playbook."""
    pid = os.getppid()
    return Run(_place(), pid, _started(pid), int(time.time()))


def is_same(one: Run, other: Run) -> bool:
    return one[:3] == other[:3]


def has_ended(run: Run, seconds: int) -> bool:
    """Whether a run has ended. One on another controller has if its last change is so many seconds ago."""
    if run.place == _place():
        return not _exists(run.pid) or _started(run.pid) != run.started
    return time.time() - run.written >= seconds


def _place() -> str:
    try:
        return "%s %s" % (socket.gethostname(), os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux
        return socket.gethostname()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # of another user
        return True
    except (OSError, OverflowError):
        return False
    return True


def _started(pid: int) -> str:
    """Clock ticks from the boot to the start of a process; empty if unknown."""
    try:
        # The second field, a name in parentheses, may contain spaces.
        return Path("/proc/%d/stat" % pid).read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
