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


class Target(t.NamedTuple):
    """What is to be installed: a version, or, if that is not known yet, any of a branch. Without both, anything."""

    version: t.Optional[str]
    branch: str = ""

    def fits(self, label: str) -> bool:
        if self.version:
            return label == self.version
        return not self.branch or label.split(".")[0] == self.branch

    def __str__(self) -> str:
        return self.version or ("of branch " + self.branch if self.branch else "")


def refuse_held(
    packages: t.Sequence[Package],
    held: t.Collection[str],
    now: Status,
    target: Target,
    own: t.Collection[str],
    desired: Desired,
) -> None:
    """Fail if apt's foreign holds keep packages that have to change. ``held`` has the names of all holds."""
    there = {each.name for each in packages}
    foreign = [
        "%s %s" % (each.name, each.version)
        for each in packages
        if each.held and each.name not in own and desired.shares_version(each.name)
        if not target.fits(desired.label(each.version))
        if each.name in desired.packages or desired.label(each.version) == now.version
    ]
    # apt holds packages that are not installed, too.
    foreign += [
        "%s, which is not installed" % name
        for name in desired.packages
        if name in held and name not in own and name not in there
    ]
    refuse(foreign, target, desired)


def refuse(foreign: t.Sequence[str], target: Target, desired: Desired) -> None:
    """Packages that somebody else holds with apt."""
    if foreign:
        raise _refusal("holds", foreign, target, "apt-mark unhold", desired, [each.split()[0] for each in foreign])


def refuse_to_remove(foreign: t.Sequence[str], desired: Desired) -> None:
    """Packages that the role installed and somebody else holds with apt."""
    if foreign:
        raise Refusal(
            "somebody else holds %s, which %s installed and would remove. Release them (apt-mark unhold), and run this again"
            % (", ".join(foreign), desired.role)
        )


def refuse_locks(
    locks: t.Sequence[str], changed: t.Sequence[t.Tuple[str, str]], version: t.Optional[str], desired: Desired
) -> None:
    """Foreign locks of dnf's plugin versionlock that packages in a transaction would not keep."""
    broken = {lock: name for lock in locks for name, full in changed if _breaks(lock, name, full)}
    if broken:
        raise _refusal("locks", broken, Target(version), "dnf versionlock delete", desired, broken.values())


def refuse_known_locks(
    locks: t.Sequence[str], packages: t.Sequence[Package], now: Status, target: Target, desired: Desired
) -> None:
    """Foreign locks that no version of the target fits. The packages' releases are not known yet."""
    names = {name for name in desired.packages if desired.shares_version(name)}
    names |= {
        each.name
        for each in packages
        if desired.shares_version(each.name) and desired.label(each.version) == now.version
    }
    broken = {lock: name for lock in locks for name in sorted(names) if _excludes(lock, name, target)}
    if broken:
        raise _refusal("locks", broken, target, "dnf versionlock delete", desired, broken.values())


def _refusal(
    verb: str,
    what: t.Iterable[str],
    target: Target,
    remedy: str,
    desired: Desired,
    names: t.Iterable[str],
) -> Refusal:
    return Refusal(
        "somebody else %s %s, which blocks %s. Release them (%s)%s"
        % (
            verb,
            ", ".join(what),
            " ".join(filter(None, (title(desired.role), str(target)))),
            remedy,
            ", or set %s_version to that version" % desired.role if any(map(desired.shares_version, names)) else "",
        )
    )


def _locked_version(lock: str, name: str) -> t.Optional[str]:
    """VERSION[-RELEASE[.ARCHITECTURE]] of the lock NAME-[EPOCH:]VERSION..., or None if it locks another package.

    Any part but the name may have wildcards, and an exclamation mark excludes a version.
    """
    rest = re.match(r"!?%s-(?:(?:\d+|\*):)?([\d*?].*)" % re.escape(name), lock)
    return rest.group(1) if rest else None


def _breaks(lock: str, name: str, full: str) -> bool:
    """Whether a package of the version VERSION-RELEASE.ARCHITECTURE breaks the lock."""
    pattern = _locked_version(lock, name)
    if pattern is None:
        return False
    forms = (full, full.rsplit(".", 1)[0], full.rsplit("-", 1)[0])
    return lock.startswith("!") == any(fnmatch.fnmatchcase(form, pattern) for form in forms)


def _excludes(lock: str, name: str, target: Target) -> bool:
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
