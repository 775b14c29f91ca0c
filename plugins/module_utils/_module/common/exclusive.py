# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Locks of the collection's modules. Only root can access their directory: a user who can open a lock can hold it."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from ..._backend.lock import DIRECTORY
from . import files

PACKAGES = DIRECTORY + "/packages.lock"
RECORD = DIRECTORY + "/record.lock"
PAUSE = 0.1  # seconds between attempts


def acquire(path: str, wait: float) -> int:
    """The locked file, until it is closed. TimeoutError if another run holds it longer than ``wait`` seconds.

    Any other OSError means that the lock cannot be opened.
    """
    files.make_private(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "it is held by another run") from None
            time.sleep(PAUSE)
    except BaseException:
        os.close(descriptor)
        raise
