# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The systemd service of a container runtime, and why it does not start."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ..common import logs, systemd
from ..common.commands import Run

# Only the reasons for which containerd, dockerd and CRI-O exit. Other lines may show configurations with passwords.
_FATAL = re.compile(
    r"^containerd: |level=\"?fatal|failed to start daemon|unable to configure the Docker daemon",
)
_MAX_LENGTH = 300


class Service(t.NamedTuple):
    """A service, as systemd reports it."""

    active: bool
    enabled: bool
    pid: int
    started: float  # seconds since the epoch; 0 if it does not run
    installed: bool = True
    stopped: bool = False  # by an administrator: it has not failed

    def is_older_than(self, path: str) -> bool:
        """Whether it was started before the file was written, and therefore cannot have read it."""
        return self.active and os.path.exists(path) and os.stat(path).st_mtime > self.started


def service(name: str, run: Run) -> Service:
    start = "ExecMainStartTimestampMonotonic"
    found = systemd.properties(run, name, "ActiveState", "LoadState", "UnitFileState", "MainPID", start)
    monotonic = int(found.get(start) or 0) / 1e6
    return Service(
        found.get("ActiveState") == "active",
        found.get("UnitFileState") == "enabled",
        int(found.get("MainPID") or 0),
        time.time() - time.monotonic() + monotonic if monotonic else 0.0,
        found.get("LoadState") != "not-found",
        found.get("ActiveState") == "inactive",
    )


def restart(name: str, run: Run) -> str:
    """Restart the service. Returns why it does not run, or nothing if it does or is not installed."""
    if not service(name, run).installed:
        return ""
    run(["systemctl", "reset-failed", name])  # the limit on starts counts those of an earlier attempt
    since = time.time()
    rc, _out, err = run(["systemctl", "restart", name])
    if rc == 0 and service(name, run).active:
        return ""
    argv = ["journalctl", "--unit", name, "--since", "@%d" % since, "--output", "cat", "--no-pager"]
    found = logs.lines(run([*argv, "--lines", str(logs.LINES)])[1])
    reasons = [line for line in found if _FATAL.search(line)]
    return (reasons[-1] if reasons else err.strip() or "the service ends after its start")[:_MAX_LENGTH]
