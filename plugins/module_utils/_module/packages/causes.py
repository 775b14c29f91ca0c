# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Why a package manager failed, according to its output."""

from __future__ import annotations

import re
import typing as t

# The first match is the cause, so consequences of other causes come last. {url} and {keys} are empty unless the role
# has a package source of its own.
_CAUSES = (
    (
        "space",
        r"No space left on device|enough free space",
        "The node has no space left: free some in /var, /usr or /boot, and run this again.",
    ),
    (
        "held",
        r"Held packages were changed",
        "Packages that somebody else holds have to change: see apt-mark showhold, and release them (apt-mark unhold).",
    ),
    (
        "lock",
        r"Could not get lock|Unable to acquire the dpkg frontend lock|frontend lock was locked|waiting for lock"
        r"|Unable to lock directory|Failed to obtain the transaction lock|already locked by|Failed to lock|[Ll]ockfile is held",
        "Another package manager is running on the node: wait for it to finish, and run this again.",
    ),
    (
        "signature",
        r"is not signed|NO_PUBKEY|EXPKEYSIG|BADSIG|GPG error|GPG check FAILED|repomd\.xml.{0,300}signature|Missing key"
        r"|GPG signature is not available"
        r"|validate GPG signature|Public key for .{0,300} is not installed",
        "A package source is not signed with the key that the node has for it: check {keys}the package sources of the node.",
    ),
    (
        "changing",
        r"has unexpected size|Hash Sum mismatch|checksum doesn't match",
        "A package source changed while it was read: run this again.",
    ),
    (
        "unreachable",
        r"Could not resolve|Connection (refused|timed out|failed)|Cannot initiate|404 +Not Found|Failed to fetch"
        r"|Cannot download|Failed to download metadata",
        "A package source cannot be reached, or lacks files that it lists: check {url}the package sources, proxy and "
        "network of the node.",
    ),
    (
        "build",
        r"Bad return status for module build|Error! Build of|make(\[\d+\])?: \*\*\* ",
        "The kernel module could not be built for a kernel of the node; the end of the build's log has the error. Another "
        "branch, another kernel, or other nvidia_driver_kernel_modules may build. The next run finishes what is half "
        "installed.",
    ),
    (
        "headers",
        r"kernel headers for kernel \S+ cannot be found",
        "The headers of the running kernel are not installed, and the kernel module cannot be built without them.",
    ),
    (
        "dependencies",
        r"unmet dependencies|but it is not (going to be installed|installable)|nothing provides|conflicting requests",
        "The offered packages have conflicting dependencies.",
    ),
)


class Cause(t.NamedTuple):
    kind: str
    text: str


def cause(text: str, role: str, has_source: bool = True) -> Cause:
    """``has_source``: whether the role has a package source of its own, and variables for it."""
    own = {"url": "%s_repository_url, and ", "keys": "the variables %s_repository_*, and "}
    words = {name: each % role if has_source else "" for name, each in own.items()}
    for kind, pattern, meaning in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return Cause(kind, meaning.format(**words))
    return Cause("unknown", "The package manager's output has the reason.")


def tail(text: str, lines: int = 20) -> t.List[str]:
    """The last lines, each once: package managers print the same in several places."""
    return list(dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip()))[-lines:]
