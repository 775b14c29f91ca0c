# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The process that removes the folder of a run when the run has ended, because a signal may end it.

It needs only the standard library and ``runs``, and does not depend on how Ansible finds collections.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

from . import runs

FOLDER, RECORD = "gpufleet", "run.json"  # in the temporary directory of a run, and in its folder
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from %s import run_cleaner; run_cleaner.main(*sys.argv[2:])"


def start(directory: Path) -> None:
    """Start a process that outlives this run, and then removes the temporary directory."""
    package = Path(__file__).parent
    subprocess.Popen(
        [sys.executable, "-IB", "-c", _PROGRAM % package.name]
        + [str(package.parent), str(directory), json.dumps(runs.current())],
        cwd="/",
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main(directory: str, run: str) -> None:
    """Wait until the run has ended, and remove its directory. ``run`` is a Run as JSON."""
    path, recorded = Path(directory), runs.Run(*json.loads(run))
    while path.exists():
        if runs.has_ended(recorded, runs.ABANDONED):
            with contextlib.suppress(OSError):
                _remove(path)
        time.sleep(1)


def _remove(directory: Path) -> None:
    """Remove the files of a run that has ended, and the directory when its last process has ended. Raises OSError."""
    folder = os.open(directory / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not is_own_directory(os.fstat(folder)):
            return
        for name in set(os.listdir(folder)) - {RECORD}:  # by which the next run knows the directory
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    if not _uses(directory):
        shutil.rmtree(directory, ignore_errors=True)


def _uses(directory: Path) -> bool:
    """Whether a process of this user has a folder in the directory as TMPDIR. Without it, Python would write to /tmp."""
    variable = ("TMPDIR=%s/" % directory).encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended
            is_own = environment.stat().st_uid == os.geteuid() and environment.parent.name != str(os.getpid())
            if is_own and variable in environment.read_bytes():
                return True
    return False


def is_own_directory(found: os.stat_result) -> bool:
    """Whether only this user may use it. A link is none."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
