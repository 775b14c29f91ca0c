# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The run of ansible-playbook that holds a node or has files: whether it is this one, still runs, or has ended."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import multiprocessing
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

_FOLDER, _RECORD = "gpufleet", "run.json"
_ABANDONED = 86400  # seconds after which files of a run on another controller, with the same home, are removed


class Run(t.NamedTuple):
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
    pid = controller()
    return Run(_place(), pid, _started(pid), int(time.time()))


def is_same(one: Run, other: Run) -> bool:
    return one[:3] == other[:3]


def has_ended(run: Run, seconds: int) -> bool:
    """Whether a run has ended. One on another controller has if its last change is so many seconds ago.

    Clocks differ, but a time further than that in the future is no time of a run.
    """
    if run.place == _place():
        # The processes of other users may be hidden.
        return not _exists(run.pid) or _started(run.pid) not in ("", run.started)
    return abs(int(time.time()) - run.written) >= seconds


def folder(temporary: Path) -> Path:
    """The folder of this run in its temporary directory, for its user only. Both are removed when the run ends.

    Also if a signal ends the run, after which Ansible does not remove them. If the whole container or session is killed,
    the next run removes them: Ansible also keeps secrets there that tasks write.
    """
    own = temporary / _FOLDER
    try:
        own.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        _remove_at_end(temporary)
    write(own / _RECORD, json.dumps(current()))
    for record in own.parents[1].glob("*/%s/%s" % (_FOLDER, _RECORD)):
        with contextlib.suppress(OSError, ValueError, TypeError):  # removed by another run, or not readable
            # Other users can write to the directory if it is below /tmp.
            found = record.parents[1].lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if ours and has_ended(Run(*json.loads(record.read_text(encoding="utf-8"))), _ABANDONED):
                shutil.rmtree(record.parents[1])
    return own


def _remove_at_end(directory: Path) -> None:
    """Start a process that outlives this run and then removes the directory."""
    subprocess.Popen(
        [sys.executable, "-I", __file__, str(directory), json.dumps(current())],
        cwd="/",
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def write(path: Path, text: str) -> None:
    """Replace a file in the folder. Other processes of the run may be reading it."""
    new = path.with_name("%s.%d" % (path.name, os.getpid()))
    new.touch(mode=0o600)
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def keep(source: Path, path: Path, check_mode: bool) -> bool:
    """Copy a file to a path outside of the folder, for its user only; whether that is a change. Raises OSError.

    The file is replaced: another user may have created it, and could read what the module copy writes to it.
    """
    content, wanted = source.read_bytes(), (stat.S_IFREG | 0o600, os.geteuid())
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if (found.st_mode, found.st_uid) == wanted and path.read_bytes() == content:
            return False
    if not check_mode:
        descriptor, new = tempfile.mkstemp(prefix=".gpufleet-", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(new, path)
        except BaseException:
            os.unlink(new)
            raise
    return True


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


if __name__ == "__main__":  # the process that _remove_at_end() starts
    _directory, _run = Path(sys.argv[1]), Run(*json.loads(sys.argv[2]))
    while _directory.exists() and not has_ended(_run, _ABANDONED):
        time.sleep(1)
    shutil.rmtree(_directory, ignore_errors=True)
