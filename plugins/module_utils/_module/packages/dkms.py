# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Kernel modules that DKMS builds: rpm packages do not fail if it cannot.

Not with the module that loads the driver: an installation without the kernel module is incomplete, and must fail before
nouveau is disabled, with the end of the log, as the package manager's own failures.
"""

from __future__ import annotations

import glob
import os
import re
import typing as t

from ..common import files
from . import causes
from .manager import CommandError, Commands

STATE = "/var/lib/dkms"


def build_missing(commands: Commands, version: str, kernel: str, check: bool) -> bool:
    """Build the driver's module for a kernel if DKMS has its source and no module.

    Returns whether it was built, or would be with ``check``.
    """
    source = missing(status(commands), version, kernel)
    if source is None or check:
        return source is not None
    output = commands.attempt(["dkms", "install", source, "-k", kernel])
    if output.status:
        raise CommandError(output.text)
    return True


def missing(listed: str, version: str, kernel: str) -> t.Optional[str]:
    """The source to build: "nvidia/580.126.20: added", without "nvidia/580.126.20, KERNEL, x86_64: installed"."""
    sources = re.findall(r"(?m)^(nvidia[a-z-]*/%s)[,:]" % re.escape(version), listed)
    built = r"(?m)^nvidia[a-z-]*/%s, %s, .*: installed" % (re.escape(version), re.escape(kernel))
    return sources[0] if sources and not re.search(built, listed) else None


def status(commands: Commands) -> str:
    """Empty if DKMS is not installed."""
    return commands.attempt(["dkms", "status"]).stdout


def newest_log() -> t.Tuple[str, t.List[str]]:
    """Path and last lines of the log of the last build."""
    logs = glob.glob(os.path.join(STATE, "**", "make.log"), recursive=True)
    if not logs:
        return "", []
    newest = max(logs, key=os.path.getmtime)
    return newest, causes.tail(files.text(newest))
