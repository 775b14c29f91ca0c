# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""One run at a time on a node.

The lock is the kernel's, on an open file: it ends with its holder, however that ends,
and a file left behind means nothing. What is written in the file only tells those who
wait for whom they wait.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import os
import stat
import time
import typing as t

# Created with mode 0700: a user who can open a lock file can hold the lock.
DIRECTORY = "/run/gpufleet"
DEFAULT_PATH = DIRECTORY + "/nvidia-mig.lock"
_POLL_SECONDS = 0.1
_SIGNATURE = b"PID "
_LONGEST_SIGNATURE = 1000
_REMEDY = "Run as root, or name another file for the lock"


class LockError(Exception):
    """The lock cannot be had. The message names the holder and the remedy."""


@contextlib.contextmanager
def held(
    path: str = DEFAULT_PATH,
    wait: float = 0,
    create: bool = True,
    command: str = "",
    progress: t.Optional[t.Callable[[str], None]] = None,
) -> t.Iterator[None]:
    """Hold the lock at ``path``; give up after ``wait`` seconds.

    ``progress`` is told once, with the holder, if there is a wait. ``command`` is how
    this run is named to others that wait. With ``create`` False (check mode) nothing is
    written. If the lock file is missing then, no other run holds the lock; a path at which
    a real run could not create it is refused. Of directories, only the default one is created.
    """
    descriptor = _open(path, create)
    if descriptor is None:
        yield
        return
    try:
        _acquire(descriptor, path, wait, progress)
        if create:
            _sign(descriptor, command)
        yield
        if create:
            _write(descriptor, b"")
    finally:
        os.close(descriptor)


def _open(path: str, create: bool) -> t.Optional[int]:
    """The open lock file; None if it is missing and ``create`` is False."""
    if not os.path.isabs(path) or "\0" in path:
        raise LockError(_cannot_open(path, "not an absolute path"))
    try:
        if os.path.dirname(path) == DIRECTORY:
            _secure_directory(path, create)
        descriptor = _open_file(path, create)
        if descriptor is None:
            _check_creatable(path)
            return None
    except OSError as error:
        if error.errno == errno.EROFS:
            remedy = "Make the file system writable, or name a lock file on another one"
            raise LockError(_cannot_open(path, "its file system is read-only", remedy)) from error
        raise LockError(_cannot_open(path, str(error.strerror))) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LockError(_cannot_open(path, "it is not a regular file"))
    return descriptor


def _secure_directory(path: str, create: bool) -> None:
    """Create the default directory. Refuse it if another user may enter it: such a user could hold the lock."""
    try:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(DIRECTORY, 0o700)
        found = os.lstat(DIRECTORY)
    except FileNotFoundError:
        return  # opening the file fails for the same reason
    if not stat.S_ISDIR(found.st_mode):
        why = "is not a directory"
    elif found.st_uid != os.geteuid():
        why = "belongs to the user with the id %d" % found.st_uid
    elif found.st_mode & 0o077:
        why = "is open to other users, with mode %04o" % stat.S_IMODE(found.st_mode)
    else:
        return
    remedy = "Remove it while no run is in progress: the next run creates it with mode 0700"
    raise LockError(_cannot_open(path, "%s %s" % (DIRECTORY, why), _REMEDY if os.geteuid() else remedy))


def _open_file(path: str, create: bool) -> t.Optional[int]:
    """Open the lock file, whoever created it; None if it is missing and ``create`` is False.

    Other users may be able to write to the directory of a path that the user chose. A link at
    the path is not followed. O_CREAT is only used for a new file: for files of other users the
    kernel may refuse it, even to root (fs.protected_regular). Reading is enough for locking.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    existing = [os.O_RDWR, os.O_RDONLY]
    attempts = [*existing, os.O_RDWR | os.O_CREAT | os.O_EXCL, *existing] if create else [os.O_RDONLY]
    problem: t.Optional[OSError] = None
    for attempt in attempts:
        try:
            return os.open(path, flags | attempt, 0o644)
        except OSError as error:
            if attempt & os.O_CREAT and isinstance(error, FileExistsError):
                continue  # another run has just created it
            problem = error
            if attempt & os.O_CREAT:
                break
    if problem is not None and (create or not isinstance(problem, FileNotFoundError)):
        raise problem
    return None


def _check_creatable(path: str) -> None:
    """Raise the OSError with which a run that is not in check mode would fail to create the lock file."""
    directory = os.path.dirname(path)
    if directory == DIRECTORY and not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    if os.access(directory, os.W_OK | os.X_OK):
        return
    code = errno.EACCES
    if not os.path.isdir(directory):
        code = errno.ENOENT
    elif os.statvfs(directory).f_flag & os.ST_RDONLY:
        code = errno.EROFS
    raise OSError(code, os.strerror(code))


def _acquire(descriptor: int, path: str, wait: float, progress: t.Optional[t.Callable[[str], None]]) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise LockError("%s cannot be locked: %s" % (path, error.strerror)) from error
        left = deadline - time.monotonic()
        if left <= 0:
            raise LockError(
                "Another run is changing the MIG layout of this node: %s. It still holds %s after %g seconds. "
                "Run again when it has ended, or wait longer for it" % (_holder(descriptor), path, wait)
            )
        if progress is not None:
            progress("Waiting up to %g seconds for another run on this node: %s" % (wait, _holder(descriptor)))
            progress = None
        time.sleep(min(_POLL_SECONDS, left))


def _sign(descriptor: int, command: str) -> None:
    """Write down who holds the lock, for those who wait."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    text = "%s%d (%s), user %s, since %s" % (_SIGNATURE.decode(), os.getpid(), command or "unnamed command", _user(), since)
    _write(descriptor, text.encode("utf-8", "replace")[:_LONGEST_SIGNATURE])


def _write(descriptor: int, content: bytes) -> None:
    """Replace the content, if this user may: without it the lock is as good, only nameless.

    A file with a second name is not written to: somebody may have linked another file here. Nor is one that holds
    anything but a signature: its path may have been given by mistake.
    """
    if os.fstat(descriptor).st_nlink != 1 or os.pread(descriptor, len(_SIGNATURE), 0) not in (b"", _SIGNATURE):
        return
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no account of that number
        return str(os.getuid())


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, _LONGEST_SIGNATURE, 0).decode("utf-8", "replace").strip()
    return text or "its holder did not sign the lock"


def _cannot_open(path: str, why: str, remedy: str = _REMEDY) -> str:
    return "The lock %s cannot be opened: %s. %s" % (path, why, remedy)
