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
_OF_ANSIBLE = "ansible-local-*"  # its temporary directories
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
    return _age(run) >= seconds


def lets_go(run: Run, seconds: int) -> bool:
    """Whether a node's record of a run no longer counts. Whoever may patch the node can write any record into it."""
    return has_ended(run, seconds) or _age(run) >= _ABANDONED


def _age(run: Run) -> int:
    return abs(int(time.time()) - run.written)


def folder(temporary: Path) -> Path:
    """The folder of this run in its temporary directory, for its user only. Both are removed when the run ends.

    Also if a signal ends the run, after which Ansible does not remove them. If the whole container or session is killed,
    the next run removes them: Ansible also keeps secrets there that tasks write. Raises OSError, and PermissionError if
    another user could replace them.
    """
    _require_own(temporary)
    own = temporary / _FOLDER
    try:
        own.mkdir(mode=0o700)
    except FileExistsError:
        _require_own(own)
    else:
        _remove_at_end(temporary)
    write(own / _RECORD, json.dumps(current()))
    for path in temporary.parent.glob(_OF_ANSIBLE):
        if path != temporary and _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)
    return own


def _require_own(directory: Path) -> None:
    """Raises PermissionError if the directory is not this user's alone, or another user has made one that contains it.

    Members of a group may replace a directory in one that the group may write to.
    """
    remedy = "set local_tmp in ansible.cfg to a directory of your own, such as one in /tmp or /dev/shm"
    if not _is_own_directory(directory.lstat()):
        raise PermissionError("%s is not a directory of this user with mode 0700: %s" % (directory, remedy))
    path = directory.resolve()
    for parent in path.parents:
        found = parent.stat()
        trusted = {each.st_uid for each in (found, path.stat())} <= {0, os.geteuid()}
        if found.st_mode & stat.S_IWOTH and not (found.st_mode & stat.S_ISVTX and trusted):
            raise PermissionError("another user can replace %s in %s: %s" % (path, parent, remedy))
        path = parent


def _is_own_directory(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _is_abandoned(path: Path) -> bool:
    """Whether a directory is that of a run that has ended. Other users may write to the directory that contains it."""
    try:
        if not (_is_own_directory(path.lstat()) and _is_own_directory((path / _FOLDER).lstat())):
            return False
        found = json.loads((path / _FOLDER / _RECORD).read_text(encoding="utf-8"))
        return has_ended(Run(*found), _ABANDONED)
    except (OSError, ValueError, TypeError, RecursionError):  # being removed by another run, or damaged
        return False


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
    descriptor, new = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


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


def _uses(directory: Path) -> bool:
    """Whether a process of this user has a folder in the directory as TMPDIR. Without it, Python would write to /tmp."""
    variable = ("TMPDIR=%s/" % directory).encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended
            is_own = environment.stat().st_uid == os.geteuid() and environment.parent.name != str(os.getpid())
            if is_own and variable in environment.read_bytes():
                return True
    return False


def _remove(directory: Path) -> None:
    """Remove the files of a run that has ended, and the directory when its last process has ended. Raises OSError."""
    folder = os.open(directory / _FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not _is_own_directory(os.fstat(folder)):
            return
        for name in set(os.listdir(folder)) - {_RECORD}:  # by which the next run knows the directory
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    if not _uses(directory):
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":  # the process that _remove_at_end() starts
    _directory, _run = Path(sys.argv[1]), Run(*json.loads(sys.argv[2]))
    while _directory.exists():
        if has_ended(_run, _ABANDONED):
            with contextlib.suppress(OSError):
                _remove(_directory)
        time.sleep(1)
