# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Why a package manager failed: what is left of the filters of the driver's packages, for nvidia_container_toolkit."""

from __future__ import annotations

import re
import typing as t

# The first that matches is the cause; those that another one brings with it come later.
_CAUSES = (
    (
        r"No space left on device|enough free space",
        "The node has no space left: free some in /var, /usr or /boot, and run this again.",
    ),
    (r"Held packages were changed", "Packages that somebody holds stand in the way: see apt-mark showhold."),
    (
        r"Could not get lock|Unable to acquire the dpkg frontend lock|waiting for lock",
        "Another package manager is at work on the node: wait for it to end, and run this again.",
    ),
    (
        r"is not signed|NO_PUBKEY|EXPKEYSIG|BADSIG|GPG error|GPG check FAILED|repomd\.xml.*signature|Missing key"
        r"|validate GPG signature|Public key for .* is not installed",
        "A package source is not signed with the key that was given: check nvidia_driver_repository_url and "
        "nvidia_driver_repository_key.",
    ),
    (
        r"has unexpected size|Hash Sum mismatch|checksum doesn't match",
        "A package source changed while it was read: run this again.",
    ),
    (
        r"Could not resolve|Connection (refused|timed out|failed)|Cannot initiate|404 +Not Found|Failed to fetch"
        r"|Cannot download",
        "A package source cannot be reached, or lacks what it lists.",
    ),
    (
        r"Bad return status for module build|Error! Build of|make(\[\d+\])?: \*\*\* ",
        "The kernel module could not be built for a kernel of the node; the end of the build's log tells why. Another "
        "branch, another kernel, or nvidia_driver_kernel_modules may build. The next run finishes what is half done.",
    ),
    (
        r"kernel headers for kernel \S+ cannot be found",
        "The headers of the kernel that runs are not there, and the kernel module cannot be built without them.",
    ),
    (
        r"unmet dependencies|but it is not (going to be installed|installable)|nothing provides|conflicting requests",
        "The packages offered do not fit together.",
    ),
)


def cause(text: str) -> str:
    for pattern, meaning in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return meaning
    return "The package manager's own words tell why."


def tail(text: str, lines: int = 20) -> t.List[str]:
    """The last lines, each once: package managers say the same in several places."""
    return list(dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip()))[-lines:]
