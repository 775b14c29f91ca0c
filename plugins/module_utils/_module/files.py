# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read, replace and remove small files."""

from __future__ import annotations

import os
import stat
import tempfile
import typing as t


class Attributes(t.NamedTuple):
    """Mode and owner of a file. Root owns new files."""

    mode: int
    uid: int = 0
    gid: int = 0


def read(path: str) -> t.Optional[bytes]:
    """Return the content, or None if there is no such file."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def attributes(path: str) -> t.Optional[Attributes]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return Attributes(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def make_directory(path: str, mode: int = 0o755) -> None:
    """Create a directory and its parents, whatever the umask."""
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)


def write(path: str, content: bytes, wanted: Attributes) -> None:
    """Replace a file in one step. A reader sees the old or the new content, and only with the new file's mode."""
    path = os.path.realpath(path)
    make_directory(os.path.dirname(path))
    handle, fresh = tempfile.mkstemp(prefix=".gpufleet-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if os.geteuid() == 0:
                os.fchown(file.fileno(), wanted.uid, wanted.gid)
            os.fchmod(file.fileno(), wanted.mode)
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
