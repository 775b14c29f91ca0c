# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What apt and dnf have in common: running commands, waiting for locks, and the operations that the module needs."""

from __future__ import annotations

import re
import time
import typing as t

from .choice import Package

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

PAUSE = 5.0  # seconds between attempts to get a lock
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
}

_LOCKED = re.compile(
    r"Could not get lock|Unable to acquire the dpkg frontend lock|frontend lock was locked|Unable to lock directory"
    r"|Failed to obtain the transaction lock|already locked by"
)


class CommandError(Exception):
    """A command failed. The message is its output."""


class Output(t.NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + "\n" + self.stderr


class Commands:
    """Runs commands on the node, and retries them while another package manager has the lock."""

    def __init__(self, module: AnsibleModule, lock_timeout: float) -> None:
        self._module = module
        self._lock_timeout = lock_timeout

    def attempt(self, argv: t.Sequence[str], data: t.Optional[str] = None) -> Output:
        """Does not fail if the command does."""
        deadline = time.monotonic() + self._lock_timeout
        while True:
            output = self._run(argv, data)
            left = deadline - time.monotonic()
            if output.status == 0 or left <= 0 or not _LOCKED.search(output.text):
                return output
            time.sleep(min(PAUSE, left))

    def _run(self, argv: t.Sequence[str], data: t.Optional[str]) -> Output:
        try:
            result = self._module.run_command(
                list(argv),
                data=data,
                environ_update=ENVIRONMENT,
                expand_user_and_vars=False,
                handle_exceptions=False,
            )
        except OSError as error:  # the program is not installed
            return Output(127, "", "%s: %s" % (argv[0], error.strerror))
        return Output(*result)

    def run(self, argv: t.Sequence[str], data: t.Optional[str] = None) -> Output:
        output = self.attempt(argv, data)
        if output.status:
            raise CommandError(output.text)
        return output

    def warn(self, text: str) -> None:
        self._module.warn(text)


class Repository(t.NamedTuple):
    """The role's own package source."""

    url: str = ""
    file: str = ""
    added: bool = False  # in this run
    key: str = ""  # its path on the node

    def sections(self) -> t.List[str]:
        """What dnf calls the repositories of the file."""
        try:
            with open(self.file, encoding="utf-8", errors="replace") as handle:
                return re.findall(r"(?m)^\[(.+)\]", handle.read())
        except FileNotFoundError:
            return []


class Simulation(t.NamedTuple):
    possible: bool
    new: t.List[str]  # names of packages that would be installed and are not now
    removed: t.List[str]  # names of packages that would be removed
    output: str
    changed: t.Sequence[t.Tuple[str, str]] = ()  # names and versions, of dnf VERSION-RELEASE.ARCHITECTURE, installed


class Manager(t.Protocol):
    separator: str  # between name and version
    releases: bool  # whether held packages must be released before they can be changed
    checks_builds: bool  # whether an installation succeeds although a DKMS build failed

    def packages(self) -> t.List[Package]: ...

    def wait(self) -> None:
        """Wait until no other package manager is running."""

    def recover(self) -> str:
        """Complete an interrupted installation. Returns the output if that fails."""

    def conflicting_sources(self) -> t.List[str]:
        """Files with package sources that the package manager would refuse together with the role's own."""

    def refresh(self) -> None:
        """Refresh the package lists."""

    def enable_stream(self, stream: str, optional: bool) -> bool:
        """Enable a module stream, unless in check mode. Returns whether that is a change."""

    def offers(self, names: t.Sequence[str], own: t.Container[str] = ()) -> t.Dict[str, t.List[str]]:
        """Versions by name, best first. Of the ``own`` packages, those of the role's own repository, if it has any."""

    def pin(self, patterns: t.Sequence[str], version: str, preview: bool = False) -> bool:
        """Prefer a version, or none if it is empty. Returns whether that is a change.

        With ``preview``, and in check mode, it only affects later simulations.
        """

    def restore_pin(self) -> None:
        """Undo the last change of the pin."""

    def simulate(
        self, specifications: t.Sequence[str], downgrade: bool = False, released: t.Sequence[str] = ()
    ) -> Simulation:
        """What ``install`` would do after the holds in ``released`` are released. Changes nothing."""

    def install(self, specifications: t.Sequence[str], downgrade: bool) -> None: ...

    def removable(
        self, names: t.Sequence[str], dependencies: t.Collection[str], released: t.Sequence[str] = ()
    ) -> t.List[str]:
        """The packages whose removal removes no others, except for their own dependencies.

        Computed as if the holds in ``released`` were released.
        """

    def remove(self, names: t.Sequence[str]) -> None: ...

    def spell_holds(self, packages: t.Sequence[Package]) -> t.List[str]: ...

    def holds(self) -> t.List[str]:
        """All holds, the role's and others."""

    def hold(self, add: t.Collection[str], remove: t.Collection[str]) -> None: ...
