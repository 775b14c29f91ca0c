# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Versions of RKE2, and the upgrades between them that Kubernetes supports."""

from __future__ import annotations

import re
import typing as t

# The oldest supported minor version.
OLDEST = (1, 31)
_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)(?:-(alpha|beta|rc)\.?(\d+))?\+rke2r(\d+)", re.ASCII)
_FINAL = "~"  # sorts after the names of pre-releases


class Version(t.NamedTuple):
    """A version of RKE2. Versions sort in release order."""

    major: int
    minor: int
    patch: int
    stage: str
    stage_number: int
    revision: int

    @property
    def series(self) -> tuple[int, int]:
        return (self.major, self.minor)


def parse(text: str) -> Version | None:
    """Parse a version such as v1.35.7+rke2r1; None if the text is not one."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    major, minor, patch, stage, stage_number, revision = match.groups()
    return Version(int(major), int(minor), int(patch), stage or _FINAL, int(stage_number or 0), int(revision))


def version_problems(desired: str, installed: str | None) -> list[str]:
    """Why the version cannot be installed on a node, or the node cannot be upgraded to it."""
    new = parse(desired)
    if new is None:
        return ["rke2_version is %r: give an exact version, such as v1.35.7+rke2r1" % desired]
    if new.series < OLDEST:
        return ["rke2_version is %s, but the oldest supported version is v%d.%d" % (desired, *OLDEST)]
    if installed is None:
        return []
    old = parse(installed)
    if old is None:
        return ["the installed RKE2 reports the version %r, which cannot be compared with %s" % (installed, desired)]
    if new < old:
        return [
            "rke2_version is %s, but the node has %s. RKE2 cannot be downgraded: set rke2_version to %s or later"
            % (desired, installed, installed)
        ]
    if new.major != old.major or new.minor > old.minor + 1:
        return [
            "rke2_version is %s, but the node has %s. An upgrade must not skip a minor version: upgrade to v%d.%d first"
            % (desired, installed, old.major, old.minor + 1)
        ]
    return []
