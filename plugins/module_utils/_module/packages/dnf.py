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

from ..files import write
from .choice import Package
from .manager import CommandError, Commands, Repository, Simulation

MODULES = "/etc/dnf/modules.d"
LOCKS = "/etc/dnf/plugins/versionlock.list"
PLUGIN = ("/etc/dnf/plugins/versionlock.conf", "python3-dnf-plugin-versionlock")

_FORMAT = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
# The role may change the packages that it has locked; foreign locks are checked in a simulation before.
_DNF = ("dnf", "--assumeyes", "--disableplugin=versionlock", "--setopt=exit_on_lock=True")
_INSTALL = ("--setopt=install_weak_deps=False", "install")
_REMOVE = ("remove", "--noautoremove")


class Dnf:
    separator = "-"
    releases = False
    checks_builds = True

    def __init__(self, commands: Commands, check_mode: bool, repository: Repository) -> None:
        self._commands = commands
        self._check_mode = check_mode
        self._repository = repository

    def packages(self) -> t.List[Package]:
        return parse(self._commands.run(["rpm", "--query", "--all", "--queryformat", _FORMAT]).stdout)

    def wait(self) -> None:
        """rpm has no half-installed packages."""

    def recover(self) -> str:
        return ""

    def conflicting_sources(self) -> t.List[str]:
        """dnf has separate keys for each repository."""
        return []

    def refresh(self) -> None:
        self._commands.run([*_DNF, "--quiet", "--refresh", "makecache"])

    def enable_stream(self, stream: str, optional: bool) -> bool:
        module, wanted = stream.split(":")
        if _enabled_stream(module) == wanted:
            return False
        if (
            optional
            and wanted not in self._commands.attempt([*_DNF, "--quiet", "module", "list", module]).stdout.split()
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

    def pin(self, patterns: t.Sequence[str], version: str, preview: bool = False) -> bool:
        """dnf has no pins: the module stream and exact versions select the packages."""
        return False

    def restore_pin(self) -> None:
        """dnf has no pins."""

    def simulate(
        self, specifications: t.Sequence[str], downgrade: bool = False, released: t.Sequence[str] = ()
    ) -> Simulation:
        output = self._commands.attempt([*_DNF, "--assumeno", *self._install, *specifications])
        possible = output.status == 0 or "Operation aborted" in output.text
        return transaction(output.stdout)._replace(possible=possible, output=output.text)

    def install(self, specifications: t.Sequence[str], downgrade: bool) -> None:
        """dnf downgrades to an older version if it is named exactly."""
        self._commands.run([*_DNF, *self._install, *specifications])

    @property
    def _install(self) -> t.List[str]:
        """Where others offer the same packages, also as dependencies, the role's own repository is preferred."""
        return [*("--setopt=%s.priority=1" % each for each in self._repository.sections()), *_INSTALL]

    def removable(
        self, names: t.Sequence[str], dependencies: t.Collection[str], released: t.Sequence[str] = ()
    ) -> t.List[str]:
        left = list(names)
        while left:
            output = self._commands.attempt(["rpm", "--erase", "--test", *left])
            found = re.findall(r"(?m)^\s*(.+?) is needed by \(installed\) (\S+)", output.text)
            needed = [what for what, package in found if package.rsplit("-", 2)[0] not in dependencies]
            if not needed:
                break
            providers = self._commands.attempt(
                ["rpm", "--query", "--whatprovides", "--queryformat", _FORMAT, *(each.split()[0] for each in needed)]
            )
            names_needed = {name for each in parse(providers.stdout) for name in (each.name, each.full_name)}
            if not names_needed & set(left):
                raise CommandError(output.text)
            left = [name for name in left if name not in names_needed]
        return left

    def remove(self, names: t.Sequence[str]) -> None:
        self._commands.run([*_DNF, *_REMOVE, *names])

    def spell_holds(self, packages: t.Sequence[Package]) -> t.List[str]:
        return sorted("%s-%s.*" % (each.name, each.version) for each in packages)

    def holds(self) -> t.List[str]:
        return [line.strip() for line in _lines() if line.strip() and not line.startswith("#")]

    def hold(self, add: t.Collection[str], remove: t.Collection[str]) -> None:
        if add and not os.path.exists(PLUGIN[0]):
            self._commands.run([*_DNF, *_INSTALL, PLUGIN[1]])
        lines = [line for line in _lines() if line.strip() not in remove]
        wanted = lines + [line for line in sorted(add) if line not in lines]
        if wanted != _lines():
            path = os.path.realpath(LOCKS)
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
            write(path, "".join(line + "\n" for line in wanted).encode(errors="surrogateescape"), mode)


def _enabled_stream(module: str) -> str:
    try:
        with open(os.path.join(MODULES, module + ".module"), encoding="utf-8") as handle:
            found = re.search(r"(?m)^stream *= *(\S*)", handle.read())
    except FileNotFoundError:
        found = None
    return found.group(1) if found else ""


def _lines() -> t.List[str]:
    try:
        with open(LOCKS, encoding="utf-8", errors="surrogateescape") as handle:
            return handle.read().splitlines()
    except FileNotFoundError:
        return []


def parse(text: str) -> t.List[Package]:
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3:  # rpm --whatprovides also prints names that nothing provides
            name, version, architecture = fields
            full_name = "%s-%s.%s" % (name, version.split(":")[-1], architecture)
            found.append(Package(name, version, full_name=full_name))
    return found


def transaction(text: str) -> Simulation:
    """The table that dnf prints. A long name, architecture or version is followed by a new line."""
    rows: t.List[t.List[str]] = []
    removed = []
    action = ""
    for line in text.splitlines():
        words = line.split()
        if not line.startswith(" "):
            action = line.split(" ")[0].rstrip(":")
        elif words[:1] == ["replacing"]:  # the package above obsoletes it
            removed.append(words[1].rpartition(".")[0])
        elif line.startswith("  ") and rows:
            rows[-1] += words
        else:
            rows.append([action, *words])
    rows = [row for row in rows if row[0] in ("Installing", "Upgrading", "Downgrading", "Removing")]
    removed += [row[1] for row in rows if row[0] == "Removing"]
    changed = [(row[1], "%s.%s" % (row[3].split(":")[-1], row[2])) for row in rows if row[0] != "Removing"]
    return Simulation(True, [row[1] for row in rows if row[0] == "Installing"], removed, text, changed)
