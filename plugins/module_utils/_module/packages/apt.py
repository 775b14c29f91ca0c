# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Packages of Debian and Ubuntu: apt-get, dpkg, preferences and selections."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import tempfile
import time
import typing as t

from .. import files
from . import causes
from .choice import Package
from .manager import CommandError, Commands, Repository, Simulation

PREFERENCES = "/etc/apt/preferences.d"
SOURCES = "/etc/apt/sources.list"
DATABASE = "/var/lib/dpkg"
RETRIES = 2
PAUSE = 3.0  # seconds between them

_FORMAT = "${db:Status-Abbrev}\\t${Package}\\t${Version}\\n"
_BROKEN = {"F": "half-configured", "H": "half-installed", "U": "unpacked"}
_GET = ("apt-get", "--quiet")
_PURGE = (*_GET, "--yes", "purge")
_INSTALL = ("--no-install-recommends",)
_CONFFILES = ("--option", "Dpkg::Options::=--force-confdef", "--option", "Dpkg::Options::=--force-confold")
_UNREADABLE = re.compile(
    r"(?m)^[WE]: .*(Failed to fetch|GPG error|is not signed|no longer signed|does not have a Release file"
    r"|Some index files failed)"
)


class Apt:
    separator = "="
    releases = True
    checks_builds = False

    def __init__(self, commands: Commands, role: str, check_mode: bool, repository: Repository) -> None:
        self._commands = commands
        self._role = role
        self._check_mode = check_mode
        self._repository = repository
        self._pin: t.Optional[bytes] = None  # that is not written, for simulations; empty if it is not removed
        self._former_pin: t.Optional[bytes] = None

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
        output = self._commands.attempt([*_GET, "check"])
        if causes.cause(output.stderr, self._role).kind == "lock":
            raise CommandError(output.text)

    def recover(self) -> str:
        output = self._commands.attempt(["dpkg", "--configure", "--pending", "--force-confold"])
        if causes.cause(output.stderr, self._role).kind == "lock":
            raise CommandError(output.text)
        return output.text if output.status else ""

    def conflicting_sources(self) -> t.List[str]:
        """apt rejects all sources if two of them have different keys for one repository."""
        own = self._repository
        paths = [SOURCES, *sorted(glob.glob(SOURCES + ".d/*.list") + glob.glob(SOURCES + ".d/*.sources"))]
        texts = {path: (files.read(path) or b"").decode(errors="replace") for path in paths if path != own.file}
        return [path for path, text in texts.items() if has_other_key(text, own.url, own.key)]

    def refresh(self) -> None:
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

    def enable_stream(self, stream: str, optional: bool) -> bool:
        """apt has no module streams: the pin selects the branch."""
        return False

    def offers(self, names: t.Sequence[str], own: t.Container[str] = ()) -> t.Dict[str, t.List[str]]:
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

    def pin(self, patterns: t.Sequence[str], version: str, preview: bool = False) -> bool:
        text = preference(self._role, patterns, version).encode() if version else None
        before = files.read(self.pin_file)
        self._pin = None
        if preview or self._check_mode:
            self._pin = (text or b"") if before != text else None
        else:
            self._former_pin = before
            self._write_pin(text)
        return before != text

    def restore_pin(self) -> None:
        self._write_pin(self._former_pin)

    def _write_pin(self, text: t.Optional[bytes]) -> None:
        if text is None:
            files.remove(self.pin_file)
        elif text != files.read(self.pin_file):
            files.write(self.pin_file, text, 0o644)

    def simulate(
        self, specifications: t.Sequence[str], downgrade: bool = False, released: t.Sequence[str] = ()
    ) -> Simulation:
        with self._after(released) as options:
            output = self._commands.attempt([*self._install(downgrade), "--simulate", *options, *specifications])
        # Without the installed version in brackets, the package is new. Some are removed and installed again.
        rows = re.findall(r"(?m)^Inst (\S+) (\[\S+\] )?\(([^\s)]+)", output.stdout)
        changed = [(name, version) for name, _installed, version in rows]
        new = [name for name, installed, _version in rows if not installed]
        gone = re.findall(r"(?m)^(?:Purg|Remv) (\S+)", output.stdout)
        removed = [name for name in gone if name not in dict(changed)]
        return Simulation(output.status == 0, new, removed, output.text, changed)

    def install(self, specifications: t.Sequence[str], downgrade: bool) -> None:
        self._commands.run([*self._install(downgrade), *specifications])

    def _install(self, downgrade: bool) -> t.List[str]:
        allowed = ["--allow-downgrades"] if downgrade else []
        return [*_GET, "--yes", *allowed, *_INSTALL, *_CONFFILES, "install"]

    @contextlib.contextmanager
    def _after(self, released: t.Sequence[str]) -> t.Iterator[t.List[str]]:
        """Options with which apt computes what it will do after the pin is written and these holds are released."""
        options: t.List[str] = []
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            if self._pin is not None:
                parts = os.path.join(folder, "preferences.d")
                if os.path.isdir(PREFERENCES):
                    shutil.copytree(PREFERENCES, parts)
                files.write(os.path.join(parts, os.path.basename(self.pin_file)), self._pin, 0o644)
                options += ["--option", "Dir::Etc::PreferencesParts=" + parts]
            if released:
                database = os.path.join(folder, "dpkg")
                _copy_database(database)
                self._select(["%s install\n" % name for name in released], database)
                options += ["--option", "Dir::State::status=" + os.path.join(database, "status")]
                options += ["--option", "Dir::Cache::pkgcache="]  # apt's cache on disk is that of the real database
            yield options

    def removable(
        self, names: t.Sequence[str], dependencies: t.Collection[str], released: t.Sequence[str] = ()
    ) -> t.List[str]:
        allowed = {*names, *dependencies}
        with self._after(released) as options:
            if self._removes_only([*names], allowed, options):
                return list(names)
            return [name for name in names if self._removes_only([name], allowed, options)]

    def _removes_only(self, names: t.Sequence[str], allowed: t.Collection[str], options: t.Sequence[str]) -> bool:
        output = self._commands.attempt([*_PURGE, "--simulate", *options, *names])
        return output.status == 0 and set(re.findall(r"(?m)^(?:Purg|Remv) (\S+)", output.stdout)) <= set(allowed)

    def remove(self, names: t.Sequence[str]) -> None:
        self._commands.run([*_PURGE, *names])

    def spell_holds(self, packages: t.Sequence[Package]) -> t.List[str]:
        return sorted({each.name for each in packages})

    def holds(self) -> t.List[str]:
        return [line.split("\t")[1] for line in self._listed().splitlines() if line.startswith("h")]

    def hold(self, add: t.Collection[str], remove: t.Collection[str]) -> None:
        self._select(["%s hold\n" % name for name in sorted(add)] + ["%s install\n" % name for name in sorted(remove)])

    def _select(self, lines: t.Sequence[str], database: str = "") -> None:
        if lines:
            # dpkg exits without reading its input if another process has the lock, and Ansible would only report a
            # broken pipe.
            feed = 'lines=$(cat); printf "%s\\n" "$lines" | dpkg "$@" --set-selections'
            options = ["--admindir=" + database] if database else []
            self._commands.run(["sh", "-c", feed, "dpkg", *options], data="".join(lines))


def _copy_database(folder: str) -> None:
    """dpkg's list of packages, without their files: what dpkg needs to change selections."""
    os.makedirs(os.path.join(folder, "info"))
    shutil.copytree(os.path.join(DATABASE, "updates"), os.path.join(folder, "updates"))
    for name in ("status", "available", "arch"):
        if os.path.exists(os.path.join(DATABASE, name)):
            shutil.copy(os.path.join(DATABASE, name), folder)


def parse(text: str) -> t.List[Package]:
    found = []
    for line in text.splitlines():
        state, name, version = line.split("\t")
        if state[1:2] not in ("n", "c", ""):
            broken = _BROKEN.get(state[1]) or ("reinstallation required" if state[2:3] == "R" else "")
            found.append(Package(name, version, held=state[0] == "h", broken=broken))
    return found


def preference(role: str, patterns: t.Sequence[str], version: str) -> str:
    return "# Written by gpufleet.node.%s\nPackage: %s\nPin: version %s\nPin-Priority: 1001\n" % (
        role,
        " ".join(patterns),
        version,
    )


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
