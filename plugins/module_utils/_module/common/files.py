# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Files that the collection's modules write on a node."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import typing as t


class Untrusted(OSError):
    """Another user may have written a file, or can access a directory."""


def remedy(error: BaseException) -> str:
    """The end of a message about the error: how to get missing permissions, or nothing."""
    return ". Run as root (become: true)" if isinstance(error, PermissionError) else ""


def read(path: str) -> t.Optional[bytes]:
    """Return the content, or None if there is no such file."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def text(path: str) -> str:
    """The content as text, empty if there is no such file. Bytes that are not UTF-8 are replaced."""
    return (read(path) or b"").decode(errors="replace")


def read_trusted(path: str) -> t.Optional[bytes]:
    """The content of a file that only root and the user that runs the module can write, or None if there is no such file.

    Links are not followed. Raises Untrusted if another user may have written the content.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as handle:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise Untrusted(errno.EACCES, "%s is not a regular file that only root can write" % path)
        return handle.read()


def make_private(directory: str) -> None:
    """Create a directory with mode 0700 if it is missing. Raises Untrusted if other users can access it."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Untrusted(errno.EACCES, "%s is not a directory that only root can access" % directory)


def write(path: str, content: bytes, mode: int, owner: t.Optional[t.Tuple[int, int]] = None) -> None:
    """Replace the file atomically, so that no reader sees a partial file.

    It belongs to the user that runs the module, unless another user and group are given. A missing directory is created
    with mode 0755.
    """
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        os.makedirs(parent, exist_ok=True)
        os.chmod(parent, 0o755)  # whatever the umask
    descriptor, fresh = tempfile.mkstemp(prefix=".gpufleet-", dir=parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            os.fchown(handle.fileno(), *(owner or (os.geteuid(), os.getegid())))
            os.fchmod(handle.fileno(), mode)
            handle.write(content)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def remove(path: str, check_mode: bool = False) -> bool:
    """Return whether there was such a file."""
    if not os.path.lexists(path):
        return False
    if not check_mode:
        os.unlink(path)
    return True
