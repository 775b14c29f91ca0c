# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Packages of Debian and Ubuntu: apt-get, dpkg, preferences and selections."""

from __future__ import annotations

import glob
import os
import re
import shutil
import tempfile
import time
import typing as t

from ..common import files
from . import causes
from .choice import Desired, Package, order
from .holds import Blocking, VersionTarget
from .manager import CommandError, Manager, Output, Simulation

PREFERENCES = "/etc/apt/preferences.d"
SOURCES = "/etc/apt/sources.list"
STATUS = "/var/lib/dpkg/status"
RETRIES = 2
PAUSE = 3.0  # seconds between them

_FORMAT = "${db:Status-Abbrev}\\t${binary:Package}\\t${Version}\\n"  # NAME:ARCHITECTURE if that is not clear
_ABSENT = ("n", "c", "")
_BROKEN = {"F": "half-configured", "H": "half-installed", "U": "unpacked"}
_GET = ("apt-get", "--quiet")
_PURGE = ("--yes", "purge")
_INSTALL = ("--no-install-recommends",)
_CONFFILES = ("--option", "Dpkg::Options::=--force-confdef", "--option", "Dpkg::Options::=--force-confold")
_UNREADABLE = re.compile(
    r"(?m)^[WE]: .*(Failed to fetch|GPG error|is not signed|no longer signed|does not have a Release file"
    r"|Some index files failed)"
)
_HELD = re.compile(rb"(?m)^Status: hold ")
_REMOVED = re.compile(r"(?m)^(?:Purg|Remv) (\S+)")


class Apt(Manager):
    separator = "="  # between name and version
    hold_words = ("holds", "apt-mark unhold")

    @property
    def pin_file(self) -> str:
        return os.path.join(PREFERENCES, "gpufleet-" + self._role.replace("_", "-"))

    def packages(self) -> t.List[Package]:
        return parse(self._listed())

    def _listed(self) -> str:
        """Also packages that are not installed, but may be held."""
        output = self._commands.attempt(["dpkg-query", "--show", "--showformat=" + _FORMAT, "*"])
        if output.status not in (0, 1):  # 1 means that there is no package
            raise CommandError(output.text)
        return output.stdout

    def wait(self) -> None:
        self._unless_locked([*_GET, "check"])

    def recover(self) -> None:
        self._unless_locked(["dpkg", "--configure", "--pending", "--force-confold"])

    def _unless_locked(self, argv: t.Sequence[str]) -> None:
        output = self._commands.attempt(argv)
        if output.locked:
            raise CommandError(output.text)

    def conflicting_sources(self) -> t.List[str]:
        """apt rejects all sources if two of them have different keys for one repository."""
        own = self._repository
        paths = [SOURCES, *sorted(glob.glob(SOURCES + ".d/*.list") + glob.glob(SOURCES + ".d/*.sources"))]
        texts = {path: files.text(path) for path in paths if path != own.file}
        return [path for path, text in texts.items() if has_other_key(text, own.url, own.key)]

    def refresh(self) -> None:
        """Read the package sources again. Only those of others may be unreadable."""
        for attempt in range(RETRIES + 1):
            output = self._commands.attempt([*_GET, "update"])
            readable = output.status == 0 and not _UNREADABLE.search(output.stderr)
            if readable or causes.cause(output.stderr, self._role).kind == "signature" or attempt == RETRIES:
                break
            time.sleep(PAUSE)
        own = self._repository.url.rstrip("/")
        if output.status or (own and not readable and own in output.stderr):
            raise CommandError(output.stderr)
        if not readable:
            self._commands.warn("Some package sources cannot be read: " + " ".join(causes.tail(output.stderr)))

    def offers(self, names: t.Sequence[str], own: t.Container[str] = ()) -> t.Dict[str, t.List[str]]:
        """Versions by name, best first. Of the ``own`` packages, those of the role's own repository, if it has any."""
        output = self._commands.attempt(["apt-cache", "madison", *names]).stdout
        rows = [[field.strip() for field in line.split("|")] for line in output.splitlines()]
        rows = [[*row[:2], row[2].partition(" ")[0].rstrip("/")] for row in rows if len(row) == 3]
        url = _without_login(self._repository.url).rstrip("/")
        only_here = own if any(row[2] == url for row in rows) else ()  # apt may show a URL in another spelling
        found: t.Dict[str, t.List[str]] = {}
        for name, version, source in rows:
            versions = found.setdefault(name, [])
            if version not in versions and (source == url or name not in only_here):
                versions.append(version)
        return found

    def preference(self, patterns: t.Sequence[str], version: str) -> bytes:
        lines = ["# Written by gpufleet.node." + self._role, "Package: " + " ".join(patterns)]
        return "\n".join([*lines, "Pin: version " + version, "Pin-Priority: 1001", ""]).encode()

    def pinned(self) -> t.Optional[bytes]:
        return files.read(self.pin_file)

    def pin(self, preference: t.Optional[bytes]) -> None:
        if preference is None:
            files.remove(self.pin_file)
        elif preference != self.pinned():
            files.write(self.pin_file, preference, 0o644)

    def simulate(self, specifications: t.Sequence[str], pin: t.Optional[bytes] = None) -> Simulation:
        """What ``install`` would do with this pin, if there were no holds. Changes nothing."""
        output = self._simulated([*self._install(downgrade=True), *specifications], pin)
        # Without the installed version in brackets, the package is new. Some are removed and installed again.
        rows = re.findall(r"(?m)^Inst (\S+) (?:\[(\S+)\] )?\(([^\s)]+)", output.stdout)
        changed = [(name, version) for name, _installed, version in rows]
        new = [name for name, installed, _version in rows if not installed]
        removed = [name for name in _REMOVED.findall(output.stdout) if name not in dict(changed)]
        downgraded = [name for name, installed, version in rows if installed and order(version) < order(installed)]
        return Simulation(output.status == 0, new, removed, output.text, changed, downgraded)

    def install(self, specifications: t.Sequence[str], downgrade: bool, own_holds: t.Sequence[str]) -> None:
        """The role's holds do not block it, and those of packages that stay are set again."""
        try:
            self.hold([], own_holds)
            self._commands.run([*_GET, *self._install(downgrade), *specifications])
        finally:
            installed = {each.name for each in self.packages()} if own_holds else ()
            self.hold([name for name in own_holds if name in installed], [])

    def _install(self, downgrade: bool) -> t.List[str]:
        allowed = ["--allow-downgrades"] if downgrade else []
        return ["--yes", *allowed, *_INSTALL, *_CONFFILES, "install"]

    def _simulated(self, argv: t.Sequence[str], pin: t.Optional[bytes]) -> Output:
        """What apt would do after the pin is written and all holds are released.

        The option --ignore-hold is not enough: the solver of apt 3.1 does not know it.
        """
        options: t.List[str] = []
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            if pin != self.pinned():
                parts = os.path.join(folder, "preferences.d")
                if os.path.isdir(PREFERENCES):
                    shutil.copytree(PREFERENCES, parts)
                files.write(os.path.join(parts, os.path.basename(self.pin_file)), pin or b"", 0o644)
                options += ["--option", "Dir::Etc::PreferencesParts=" + parts]
            if self.holds():
                status = os.path.join(folder, "status")
                files.write(status, _HELD.sub(b"Status: install ", files.read(STATUS) or b""), 0o644)
                options += ["--option", "Dir::State::status=" + status]
                options += ["--option", "Dir::Cache::pkgcache="]  # apt's cache on disk is that of the real database
            return self._commands.attempt([*_GET, "--simulate", *options, *argv])

    def removed_with(self, names: t.Sequence[str]) -> t.Optional[t.Set[str]]:
        output = self._simulated([*_PURGE, *names], self.pinned())
        return None if output.status else set(_REMOVED.findall(output.stdout))

    def remove(self, names: t.Sequence[str]) -> None:
        self._commands.run([*_GET, *_PURGE, *names])

    def holds_for(self, packages: t.Sequence[Package]) -> t.List[str]:
        return sorted({each.name for each in packages})

    def holds(self) -> t.List[str]:
        """All holds, the role's and others."""
        names = [_name(line.split("\t")[1]) for line in self._listed().splitlines() if line.startswith("h")]
        return list(dict.fromkeys(names))

    def hold(self, add: t.Collection[str], remove: t.Collection[str]) -> None:
        if add or remove:
            rows = [line.split("\t")[:2] for line in self._listed().splitlines()]
            installed = [name for state, name in rows if state[1:2] not in _ABSENT]
            lines = [
                "%s %s\n" % (instance, selection)
                for names, selection in ((add, "hold"), (remove, "install"))
                for name in sorted(names)
                # dpkg rejects a name without architecture if the library of several is installed.
                for instance in [each for each in installed if _name(each) == name] or [name]
            ]
            # dpkg exits without reading its input if another process has the lock, and Ansible would only report a
            # broken pipe.
            feed = 'lines=$(cat); printf "%s\\n" "$lines" | dpkg --set-selections'
            self._commands.run(["sh", "-c", feed], data="".join(lines))

    def excluding(
        self,
        foreign_holds: t.Sequence[str],
        packages: t.Sequence[Package],
        names: t.Set[str],
        target: VersionTarget,
        desired: Desired,
    ) -> Blocking:
        """The holds that no version of the target fits. ``names`` are the packages that must have its version."""
        installed = {each.name: each.version for each in packages}
        fitting = {name for name in names if name in installed and target.fits(desired.label(installed[name]))}
        missing = set(desired.packages).difference(installed)  # apt holds packages that are not installed, too
        return _described((names - fitting | missing).intersection(foreign_holds), installed)

    def broken(self, foreign_holds: t.Sequence[str], simulation: Simulation) -> Blocking:
        """The holds that the simulated installation would break."""
        touched = {name.split(":")[0] for name in [*dict(simulation.changed), *simulation.removed]}
        return _described(touched.intersection(foreign_holds), {each.name: each.version for each in self.packages()})


def _described(names: t.Collection[str], installed: t.Mapping[str, str]) -> Blocking:
    return {
        **{"%s %s" % (name, installed[name]): name for name in sorted(names) if name in installed},
        **{name + ", which is not installed": "" for name in sorted(names) if name not in installed},
    }


def parse(text: str) -> t.List[Package]:
    found = []
    for line in text.splitlines():
        state, name, version = line.split("\t")
        if state[1:2] not in _ABSENT:
            broken = _BROKEN.get(state[1]) or ("reinstallation required" if state[2:3] == "R" else "")
            found.append(Package(_name(name), version, held=state[0] == "h", broken=broken))
    return found


def _name(instance: str) -> str:
    return instance.partition(":")[0]


def has_other_key(text: str, url: str, key: str) -> bool:
    """Whether a file of sources, of one line or several each, has the flat repository with another key.

    Sources without a key are left to apt: it accepts them or not, depending on the order of the files.
    """
    address = re.escape(_without_login(url).partition("//")[2].rstrip("/"))
    address = r"//(?:[^/@\s]*@)?%s/?" % re.sub("amd64|arm64", r"(?:\g<0>|\\$\\(ARCH\\))", address)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for source in re.split(r"\n\s*\n|\n(?=deb)", "\n".join(lines)):
        one_line = re.search(address + r"\s+/(?:\s|$)", source)
        stanza = re.search(address + r"(?:\s|$)", source) and re.search(r"(?im)^suites:\s*/\s*$", source)
        enabled = not re.search(r"(?im)^enabled:\s*(?:no|false|off|0|without|disable)\b", source)
        if (one_line or stanza) and enabled and re.search("(?i)signed-by", source) and key not in source:
            return True
    return False


def _without_login(url: str) -> str:
    return re.sub(r"//[^/]*@", "//", url)
