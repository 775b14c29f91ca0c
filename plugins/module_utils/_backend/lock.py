# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Lock that prevents concurrent runs on a node.

It is a kernel lock on an open file: the kernel releases it when the holder exits for any
reason, and a leftover file has no effect. The content of the file only identifies the
holder to waiting runs.
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
_MAX_SIGNATURE_LENGTH = 1000
_REMEDY = "Run as root, or use another lock file"


class LockError(Exception):
    """The lock cannot be acquired. The message names the holder and the remedy."""


@contextlib.contextmanager
def locked(
    path: str = DEFAULT_PATH,
    wait: float = 0,
    create: bool = True,
    command: str = "",
    progress: t.Optional[t.Callable[[str], None]] = None,
) -> t.Iterator[None]:
    """Hold the lock at ``path``; give up after ``wait`` seconds.

    ``progress`` is called once with the holder if the lock is not free. ``command`` identifies
    this run to waiting runs. With ``create`` False (check mode) nothing is written. If the lock
    file is missing then, no other run holds the lock; a path at which a real run could not create
    it is an error. Only the default directory is created.
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
    path = os.path.normpath(path)
    try:
        if os.path.dirname(path) == DIRECTORY:
            _secure_directory(path, create)
        descriptor = _open_file(path, create)
        if descriptor is None:
            _check_creatable(path)
            return None
    except OSError as error:
        if error.errno == errno.EROFS:
            remedy = "Make the file system writable, or use a lock file on another one"
            raise LockError(_cannot_open(path, "its file system is read-only", remedy)) from error
        remedy = "Free some space there" if error.errno == errno.ENOSPC else _REMEDY
        raise LockError(_cannot_open(path, str(error.strerror), remedy)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LockError(_cannot_open(path, "it is not a regular file"))
    return descriptor


def _secure_directory(path: str, create: bool) -> None:
    """Create the default directory. Fail if another user can access it, because such a user could hold the lock."""
    try:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(DIRECTORY, 0o700)
        found = os.lstat(DIRECTORY)
    except FileNotFoundError:
        return  # opening the file will fail for the same reason
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
    """Open the lock file, regardless of its owner; None if it is missing and ``create`` is False.

    The directory of a user-defined path may be writable by other users, so a link at the path is
    not followed. O_CREAT is only used for a new file: for files of other users the kernel may
    refuse it, even to root (fs.protected_regular). Read access is sufficient for locking.
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
    """Record the holder in the lock file, for waiting runs."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    text = "%s%d (%s), user %s, since %s" % (
        _SIGNATURE.decode(),
        os.getpid(),
        command or "unnamed command",
        _user(),
        since,
    )
    _write(descriptor, text.encode("utf-8", "replace")[:_MAX_SIGNATURE_LENGTH])


def _write(descriptor: int, content: bytes) -> None:
    """Replace the content if permitted. The lock also works without it, but does not identify its holder.

    A file with more than one link is not written to: another user may have linked a different file here. Nor is a file
    whose content is not a signature, because its path may be a mistake.
    """
    if os.fstat(descriptor).st_nlink != 1 or os.pread(descriptor, len(_SIGNATURE), 0) not in (b"", _SIGNATURE):
        return
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no account with that id
        return str(os.getuid())


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, _MAX_SIGNATURE_LENGTH, 0).decode("utf-8", "replace").strip()
    return text or "unknown holder"


def _cannot_open(path: str, why: str, remedy: str = _REMEDY) -> str:
    return "The lock %s cannot be opened: %s. %s" % (path, why, remedy)
