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

DEFAULT_PATH = "/run/lock/gpufleet-nvidia-mig.lock"
_POLL_SECONDS = 0.1
_LONGEST_SIGNATURE = 1000


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
    written, and a lock file that is not there is not made: then no other run holds it.
    Its directory has to be there all the same, as the next real run needs it.
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
    """Open the lock file, whoever made it; None if there is none and none is to be made.

    O_CREAT comes last: in a world-writable directory the kernel refuses it for files of
    other users (fs.protected_regular), even to root. Reading is enough for locking. A
    link that someone planted at the path is not followed.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    attempts = [os.O_RDWR, os.O_RDONLY] if create else [os.O_RDONLY]
    if create:
        attempts += [os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY]
    problem: t.Optional[OSError] = None
    if not os.path.isabs(path) or "\0" in path:
        raise LockError(_cannot_open(path, "not an absolute path"))
    for attempt in attempts:
        try:
            descriptor = os.open(path, flags | attempt, 0o644)
        except OSError as error:
            problem = error
            continue
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise LockError(_cannot_open(path, "it is not a regular file"))
    if not create and isinstance(problem, FileNotFoundError) and os.path.isdir(os.path.dirname(path)):
        return None
    raise LockError(_cannot_open(path, str(problem and problem.strerror)))


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
    text = "PID %d (%s), user %s, since %s" % (os.getpid(), command or "unnamed command", _user(), since)
    _write(descriptor, text.encode("utf-8", "replace")[:_LONGEST_SIGNATURE])


def _write(descriptor: int, content: bytes) -> None:
    """Replace the content, if this user may: without it the lock is as good, only nameless.

    A file with a second name is not written to: somebody may have linked another file here.
    """
    if os.fstat(descriptor).st_nlink != 1:
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


def _cannot_open(path: str, why: str) -> str:
    return "The lock %s cannot be opened: %s. Run as root, or name another file for the lock" % (path, why)
