# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Packages of Enterprise Linux: dnf, rpm and the plugin versionlock."""

from __future__ import annotations

import os
import re
import stat
import typing as t

from ..common import files
from .choice import Desired, Package
from .holds import Blocking, VersionTarget, excludes, violates
from .manager import Manager, Output, Simulation

MODULES = "/etc/dnf/modules.d"
LOCKS = "/etc/dnf/plugins/versionlock.list"
PLUGIN = ("/etc/dnf/plugins/versionlock.conf", "python3-dnf-plugin-versionlock")

_FORMAT = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
# The role may change the packages that it has locked; foreign locks are checked in a simulation before.
_DNF = ("dnf", "--assumeyes", "--disableplugin=versionlock", "--setopt=exit_on_lock=True")
_INSTALL = ("--setopt=install_weak_deps=False", "install")
_REMOVE = ("remove", "--noautoremove")
_ACTIONS = ("Installing", "Upgrading", "Downgrading", "Removing")


class Dnf(Manager):
    separator = "-"
    checks_builds = True
    hold_words = ("locks", "dnf versionlock delete")

    def packages(self) -> t.List[Package]:
        return parse(self._commands.run(["rpm", "--query", "--all", "--queryformat", _FORMAT]).stdout)

    def refresh(self) -> None:
        self._commands.run([*_DNF, "--quiet", "--refresh", "makecache"])

    def enable_stream(self, stream: str, optional: bool) -> bool:
        module, desired = stream.split(":")
        if _enabled_stream(module) == desired:
            return False
        if (
            optional
            and desired not in self._commands.attempt([*_DNF, "--quiet", "module", "list", module]).stdout.split()
        ):
            return False
        if not self._check_mode:
            self._commands.run([*_DNF, "module", "reset", module])
            self._commands.run([*_DNF, "module", "enable", stream])
        return True

    def offers(self, names: t.Sequence[str], own: t.Container[str] = ()) -> t.Dict[str, t.List[str]]:
        """A package that is requested with its version, such as kernel-devel-5.14.0, is listed under that name too.

        Other repositories may add packages of ``own`` that the role's lacks: Red Hat's kernel module kmod-nvidia.
        """
        argv = [*_DNF, "--quiet", "repoquery", "--queryformat", "%{name} %{evr} %{arch} %{repoid}\n", *names]
        rows = [line.split() for line in self._commands.run(argv).stdout.splitlines()]
        rows = [row for row in rows if len(row) == 4]
        here = self._repository.sections()
        only_here = {row[0] for row in rows if row[3] in here and row[0] in own}
        found: t.Dict[str, t.List[str]] = {}
        for name, version, architecture, source in rows:
            if source in here or name not in only_here:
                for each in (name, "%s-%s.%s" % (name, version.split(":")[-1], architecture)):
                    if version not in found.setdefault(each, []):
                        found[each].append(version)
        return found

    def simulate(self, specifications: t.Sequence[str], pin: t.Optional[bytes] = None) -> Simulation:
        output = self._commands.attempt([*_DNF, "--assumeno", *self._install, *specifications])
        rows = transaction(output.stdout)
        return Simulation(
            _possible(output),
            new=[name for action, name, _version in rows if action == "Installing"],
            removed=[name for action, name, _version in rows if action == "Removing"],
            output=output.text,
            changed=[(name, version) for action, name, version in rows if action != "Removing"],
            downgraded=[name for action, name, _version in rows if action == "Downgrading"],
        )

    def install(self, specifications: t.Sequence[str], downgrade: bool, own_holds: t.Sequence[str]) -> None:
        """dnf downgrades to an older version if it is named exactly."""
        self._commands.run([*_DNF, *self._install, *specifications])

    @property
    def _install(self) -> t.List[str]:
        """Where others offer the same packages, also as dependencies, the role's own repository is preferred."""
        return [*("--setopt=%s.priority=1" % each for each in self._repository.sections()), *_INSTALL]

    def removed_with(self, names: t.Sequence[str]) -> t.Optional[t.Set[str]]:
        output = self._commands.attempt([*_DNF, "--assumeno", *_REMOVE, *names])
        rows = [(name, "%s-%s" % (name, version)) for _action, name, version in transaction(output.stdout)]
        return {full if full in names else name for name, full in rows} if _possible(output) else None

    def remove(self, names: t.Sequence[str]) -> None:
        self._commands.run([*_DNF, *_REMOVE, *names])

    def holds_for(self, packages: t.Sequence[Package]) -> t.List[str]:
        return sorted("%s-%s.*" % (each.name, each.version) for each in packages)

    def holds(self) -> t.List[str]:
        return [line.strip() for line in _text(LOCKS).splitlines() if line.strip() and not line.startswith("#")]

    def hold(self, add: t.Collection[str], remove: t.Collection[str]) -> None:
        if add and not os.path.exists(PLUGIN[0]):
            self._commands.run([*_DNF, *_INSTALL, PLUGIN[1]])
        before = _text(LOCKS).splitlines()
        kept = [line for line in before if line.strip() not in remove]
        desired = kept + [line for line in sorted(add) if line not in kept]
        if desired != before:
            path = os.path.realpath(LOCKS)
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
            files.write(path, "".join(line + "\n" for line in desired).encode(errors="surrogateescape"), mode)

    def excluding(
        self,
        foreign_holds: t.Sequence[str],
        packages: t.Sequence[Package],
        names: t.Set[str],
        target: VersionTarget,
        desired: Desired,
    ) -> Blocking:
        return {
            lock: _kept(lock, name) for lock in foreign_holds for name in sorted(names) if excludes(lock, name, target)
        }

    def broken(self, foreign_holds: t.Sequence[str], simulation: Simulation) -> Blocking:
        changed = simulation.changed
        return {
            lock: _kept(lock, name) for lock in foreign_holds for name, full in changed if violates(lock, name, full)
        }


def _kept(lock: str, name: str) -> str:
    return "" if lock.startswith("!") else name  # it excludes a version


def _possible(output: Output) -> bool:
    return output.status == 0 or "Operation aborted" in output.text


def _enabled_stream(module: str) -> str:
    found = re.search(r"(?m)^stream *= *(\S*)", _text(os.path.join(MODULES, module + ".module")))
    return found.group(1) if found else ""


def _text(path: str) -> str:
    return (files.read(path) or b"").decode(errors="surrogateescape")


def parse(text: str) -> t.List[Package]:
    found = []
    for line in text.splitlines():
        name, version, architecture = line.split("\t")
        full_name = "%s-%s.%s" % (name, version.split(":")[-1], architecture)
        found.append(Package(name, version, full_name=full_name))
    return found


def transaction(text: str) -> t.List[t.Tuple[str, str, str]]:
    """Rows of the table that dnf prints: action, name, and VERSION-RELEASE.ARCHITECTURE.

    A long name, architecture or version is followed by a new line.
    """
    rows: t.List[t.List[str]] = []
    action = ""
    for line in text.splitlines():
        words = line.split()
        if not line.startswith(" "):
            action = line.split(" ")[0].rstrip(":")
        elif words[:1] == ["replacing"]:  # the package above obsoletes NAME.ARCHITECTURE
            rows.append(["Removing", *words[1].rsplit(".", 1), words[2]])
        elif line.startswith("  ") and rows:
            rows[-1] += words
        else:
            rows.append([action, *words])
    return [(row[0], row[1], "%s.%s" % (row[3].split(":")[-1], row[2])) for row in rows if row[0] in _ACTIONS]
