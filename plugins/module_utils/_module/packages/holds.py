# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Holds of apt and locks of dnf that are not the role's, and block what it would install or remove."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from .choice import Desired, Package, Refusal, Status, title

Blocking = t.Dict[str, str]  # foreign holds as the user sees them, and the package that each keeps at a version, if any


class VersionTarget(t.NamedTuple):
    """What is to be installed: a version, or, if that is not known yet, any of a branch. Without both, anything."""

    version: t.Optional[str]
    branch: str = ""

    def fits(self, label: str) -> bool:
        if self.version:
            return label == self.version
        return not self.branch or label.split(".")[0] == self.branch

    def __str__(self) -> str:
        return self.version or ("of branch " + self.branch if self.branch else "")


def sharing_version(packages: t.Sequence[Package], now: Status, desired: Desired) -> t.Set[str]:
    """Names of the packages that must have the version of the target."""
    names = [*desired.packages, *(each.name for each in packages if desired.label(each.version) == now.version)]
    return set(filter(desired.shares_version, names))


def refuse(words: t.Tuple[str, str], blocking: Blocking, target: VersionTarget, desired: Desired) -> None:
    """Fail if there are blocking holds. ``words`` are the package manager's for a hold and its release."""
    if not blocking:
        return
    raise Refusal(
        "somebody else %s %s, which blocks %s. Release them (%s)%s"
        % (
            words[0],
            ", ".join(blocking),
            " ".join(filter(None, (title(desired.role), str(target)))),
            words[1],
            ", or set %s_version to that version" % desired.role
            if any(map(desired.shares_version, blocking.values()))
            else "",
        )
    )


def refuse_removal(foreign: t.Sequence[str], desired: Desired) -> None:
    """Packages that the role installed and somebody else holds with apt."""
    if foreign:
        raise Refusal(
            "somebody else holds %s, which %s installed and would remove. Release them (apt-mark unhold), and run this again"
            % (", ".join(foreign), desired.role)
        )


def _locked_version(lock: str, name: str) -> t.Optional[str]:
    """VERSION[-RELEASE[.ARCHITECTURE]] of the lock NAME-[EPOCH:]VERSION..., or None if it locks another package.

    Any part but the name may have wildcards, and an exclamation mark excludes a version.
    """
    rest = re.match(r"!?%s-(?:(?:\d+|\*):)?([\d*?].*)" % re.escape(name), lock)
    return rest.group(1) if rest else None


def violates(lock: str, name: str, full: str) -> bool:
    """Whether a package of the version VERSION-RELEASE.ARCHITECTURE violates the lock of dnf's plugin versionlock."""
    pattern = _locked_version(lock, name)
    if pattern is None:
        return False
    forms = (full, full.rsplit(".", 1)[0], full.rsplit("-", 1)[0])
    return lock.startswith("!") == any(fnmatch.fnmatchcase(form, pattern) for form in forms)


def excludes(lock: str, name: str, target: VersionTarget) -> bool:
    """Whether no version of the target fits the lock. The packages' releases are not known yet."""
    pattern = _locked_version(lock, name)
    if pattern is None:
        return False
    number, _hyphen, release = pattern.partition("-")
    version = (target.version or "").partition("-")[0]
    if lock.startswith("!"):
        return bool(version) and not release and fnmatch.fnmatchcase(version, number)
    if version:
        return not fnmatch.fnmatchcase(version, number)
    first = number.split(".")[0]
    return bool(target.branch) and first.isdigit() and first != target.branch
