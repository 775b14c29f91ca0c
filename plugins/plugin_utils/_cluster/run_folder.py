# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The folder of a run on the controller, for kubeconfigs and temporary files, which only its user may read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

from . import run_cleaner, runs
from .run_cleaner import FOLDER, RECORD, is_own_directory

_OF_ANSIBLE = "ansible-local-*"  # its temporary directories


def prepare(temporary: Path) -> Path:
    """The folder of this run in its temporary directory, for its user only. Both are removed when the run ends.

    Also if a signal ends the run, after which Ansible does not remove them. If the whole container or session is killed,
    the next run removes them: Ansible also keeps secrets there that tasks write. Raises OSError, and PermissionError if
    another user could replace them.
    """
    _require_own(temporary)
    own = temporary / FOLDER
    try:
        own.mkdir(mode=0o700)
    except FileExistsError:
        _require_own(own)
    else:
        run_cleaner.start(temporary)
    write(own / RECORD, json.dumps(runs.current()).encode())
    for path in temporary.parent.glob(_OF_ANSIBLE):
        if path != temporary and _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)
    return own


def _require_own(directory: Path) -> None:
    """Raises PermissionError if the directory is not this user's alone, or another user has made one that contains it.

    Members of a group may replace a directory in one that the group may write to.
    """
    remedy = "set local_tmp in ansible.cfg to a directory of your own, such as one in /tmp or /dev/shm"
    if not is_own_directory(directory.lstat()):
        raise PermissionError("%s is not a directory of this user with mode 0700: %s" % (directory, remedy))
    path = directory.resolve()
    for parent in path.parents:
        found = parent.stat()
        trusted = {each.st_uid for each in (found, path.stat())} <= {0, os.geteuid()}
        if found.st_mode & stat.S_IWOTH and not (found.st_mode & stat.S_ISVTX and trusted):
            raise PermissionError("another user can replace %s in %s: %s" % (path, parent, remedy))
        path = parent


def _is_abandoned(path: Path) -> bool:
    """Whether a directory is that of a run that has ended. Other users may write to the directory that contains it."""
    try:
        if not (is_own_directory(path.lstat()) and is_own_directory((path / FOLDER).lstat())):
            return False
        found = json.loads((path / FOLDER / RECORD).read_text(encoding="utf-8"))
        return runs.has_ended(runs.Run(*found), runs.ABANDONED)
    except (OSError, ValueError, TypeError, RecursionError):  # being removed by another run, or damaged
        return False


def write(path: Path, content: bytes) -> None:
    """Replace a file, for its user only. Other processes of the run may be reading it. Raises OSError."""
    descriptor, new = tempfile.mkstemp(prefix=".gpufleet-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def keep(source: Path, path: Path, check_mode: bool) -> bool:
    """Copy a file to a path outside of the folder, for its user only; whether that is a change. Raises OSError.

    The file is replaced: another user may have created it, and could read what the module copy writes to it.
    """
    content, desired = source.read_bytes(), (stat.S_IFREG | 0o600, os.geteuid())
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if (found.st_mode, found.st_uid) == desired and path.read_bytes() == content:
            return False
    if not check_mode:
        write(path, content)
    return True
