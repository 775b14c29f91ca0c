# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Forces a race: stops the first process that writes its id to a lock file, until another process waits for the lock.

Usage: pause.py LOCK. The other process counts only after LOCK.go exists. LOCK.paused exists while the first is stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path


def until(condition):
    while not (found := condition()):
        time.sleep(0.02)
    return found


def signer():
    with contextlib.suppress(FileNotFoundError):
        return re.search(r"PID (\d+)", lock.read_text())
    return None


def has_it_open(process):
    with contextlib.suppress(OSError):
        return any(os.path.samefile(opened, lock) for opened in (process / "fd").iterdir())
    return False


def somebody_waits():
    others = (path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name not in known)
    return Path("%s.go" % lock).exists() and any(has_it_open(process) for process in others)


lock = Path(sys.argv[1])
first = int(until(signer).group(1))
os.kill(first, signal.SIGSTOP)
try:
    known = {str(os.getpid()), str(first)}
    Path("%s.paused" % lock).touch()
    until(somebody_waits)
finally:
    os.kill(first, signal.SIGCONT)
