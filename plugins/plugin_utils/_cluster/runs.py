# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The run of ansible-playbook that holds a node or has files: whether it is this one, still runs, or has ended."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import multiprocessing
import os
import socket
import time
import typing as t
from pathlib import Path

ABANDONED = 86400  # seconds since the last change of a run, after which its record or its files no longer count


class Run(t.NamedTuple):
    """A process of ansible-playbook."""

    # Host name of the controller, its PID namespace, which differs between containers, and a hash of its machine ID.
    place: str = ""
    pid: int = 0
    started: str = ""  # when the process started, because PIDs are used again
    written: int = 0  # when it last changed the record, in seconds since the epoch

    def __str__(self) -> str:
        return "process %d on %.64s" % (self.pid, self.place.partition(" ")[0] or "an unknown controller")


def controller() -> int:
    """The PID of ansible-playbook, even if it has ended. Actions run in a child process of it."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None else t.cast("int", parent.pid)


def current() -> Run:
    """This run, as of the present second."""
    pid = controller()
    return Run(_place(), pid, _started(pid), int(time.time()))


def is_same(one: Run, other: Run) -> bool:
    """Whether both are the same process, whenever they were recorded."""
    return one[:3] == other[:3]


def has_ended(run: Run, seconds: int) -> bool:
    """Whether a run has ended. One on another controller has if its last change is so many seconds ago.

    Clocks differ, but a time further than that in the future is no time of a run.
    """
    if run.place == _place():
        # The processes of other users may be hidden.
        return not _exists(run.pid) or _started(run.pid) not in ("", run.started)
    return _age(run) >= seconds


def record_expired(run: Run, seconds: int) -> bool:
    """Whether a node's record of a run no longer counts. Whoever may patch the node can write any record into it."""
    return has_ended(run, seconds) or _age(run) >= ABANDONED


def _age(run: Run) -> int:
    return abs(int(time.time()) - run.written)


def _place() -> str:
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not Linux
        parts.append(os.readlink("/proc/self/ns/pid"))
        machine = Path("/etc/machine-id").read_bytes().strip()
        # The ID is confidential, and whoever may read nodes can read their annotations: see machine-id(5).
        parts.append(hmac.new(machine, b"gpufleet.node", hashlib.sha256).hexdigest())
    return " ".join(parts)


def _exists(pid: int) -> bool:
    if pid <= 0:  # a group of processes for kill()
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:  # of another user
        return True
    except (OSError, OverflowError):
        return False
    return True


def _started(pid: int) -> str:
    """Clock ticks from the boot to the start of a process; empty if unknown, and "ended" if only its parent waits."""
    try:
        # The second field, a name in parentheses, may contain spaces.
        text = Path("/proc/%d/stat" % pid).read_text(encoding="utf-8", errors="replace")
        state, *others = text.rpartition(")")[2].split()
        return "ended" if state in "ZX" else others[18]
    except (OSError, IndexError, ValueError):
        return ""
