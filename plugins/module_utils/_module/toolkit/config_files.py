# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The files of a container runtime's configuration: what to write, what the owner's were, and how they are restored."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import typing as t

from ..common import files

Content = t.Optional[bytes]  # None: there is no such file

PRIVATE = 0o600
_SAVED = ("before", "after", "drop_in", "previous")  # names in the backup


class File(t.NamedTuple):
    """The desired state of a file."""

    path: str
    content: Content
    mode: t.Optional[int]  # None: that of the file, 0600 for a new one

    def write(self) -> None:
        path = os.path.realpath(self.path)
        if self.content is None:
            files.remove(path)
            return
        found = _stat(path)
        mode = self.mode or (stat.S_IMODE(found.st_mode) if found else PRIVATE)
        files.write(path, self.content, mode, (found.st_uid, found.st_gid) if found else None)

    def is_current(self) -> bool:
        found = _stat(self.path)
        if found is None or self.content is None:
            return found is None and self.content is None
        right_mode = self.mode is None or stat.S_IMODE(found.st_mode) == self.mode
        return right_mode and files.read(self.path) == self.content

    def describe(self) -> str:
        if self.content is None:
            return "Remove %s" % self.path
        return "Write %s" % self.path


class Backup:
    """The saved files of the owner, and the configuration that was written."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def exists(self) -> bool:
        return os.path.isdir(self.directory)

    def read(self, name: str) -> Content:
        return files.read(os.path.join(self.directory, name))

    def save(self, **contents: Content) -> None:
        """The first time atomically: after an interruption, our own files must not count as the owner's."""
        parent = os.path.dirname(self.directory)
        os.makedirs(parent, mode=0o755, exist_ok=True)
        directory = self.directory if self.exists() else tempfile.mkdtemp(prefix=".gpufleet-", dir=parent)
        for name, content in contents.items():
            File(os.path.join(directory, name), content, PRIVATE).write()
        if directory != self.directory:
            os.rename(directory, self.directory)

    def is_generated(self, config: Content) -> bool:
        """Whether this collection wrote the configuration: the last one, or after an interruption the one before."""
        return config is not None and config in (self.read("after"), self.read("previous"))

    @property
    def last_written_path(self) -> str:
        """A file whose modification time is that of our last change."""
        return os.path.join(self.directory, "after")

    def remove(self) -> None:
        """Remove the directory, and those above that are then empty."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.removedirs(os.path.dirname(self.directory))


class PreviousFiles(t.NamedTuple):
    """The files before a change, and what was saved then; None if nothing was."""

    files: t.List[File]
    saved: t.Optional[t.Dict[str, Content]]

    def restore(self, backup: Backup) -> None:
        for file in self.files:
            file.write()
        if self.saved is None:
            backup.remove()
        else:
            backup.save(**self.saved)


class ConfigChange(t.NamedTuple):
    """The files to write, and those of the owner to save first."""

    files: t.List[File]
    save: t.Dict[str, Content]

    def apply(self, backup: Backup) -> PreviousFiles:
        """Write the files. Returns what restores them."""
        saved = {name: backup.read(name) for name in _SAVED} if backup.exists() else None
        previous = PreviousFiles(
            [File(file.path, files.read(file.path), _mode(file.path)) for file in self.files], saved
        )
        if self.files and self.save:
            backup.save(**self.save)
        for file in self.files:
            file.write()
        return previous


def _mode(path: str) -> t.Optional[int]:
    found = _stat(path)
    return stat.S_IMODE(found.st_mode) if found else None


def _stat(path: str) -> t.Optional[os.stat_result]:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
