# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What apt and dnf have in common: running commands, waiting for locks, and the operations that the module needs."""

from __future__ import annotations

import re
import time
import typing as t

from ..common import files

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

    @property
    def locked(self) -> bool:
        """Whether the command failed because another package manager has the lock."""
        return self.status != 0 and bool(_LOCKED.search(self.text))


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
            if left <= 0 or not output.locked:
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
        return re.findall(r"(?m)^\[(.+)\]", files.text(self.file))


class Simulation(t.NamedTuple):
    possible: bool
    new: t.List[str]  # names of packages that would be installed and are not now
    removed: t.List[str]  # names of packages that would be removed
    output: str
    changed: t.Sequence[t.Tuple[str, str]] = ()  # names and versions, of dnf VERSION-RELEASE.ARCHITECTURE, installed
    downgraded: t.Collection[str] = ()  # names of those whose installed version is later


class Manager:
    """What apt and dnf have in common, and the operations that do nothing with one of them."""

    checks_builds = False  # whether an installation succeeds although a DKMS build failed

    def __init__(self, commands: Commands, role: str, check_mode: bool, repository: Repository) -> None:
        self._commands = commands
        self._role = role
        self._check_mode = check_mode
        self._repository = repository

    def wait(self) -> None:
        """Wait until no other package manager is running."""

    def recover(self) -> None:
        """Complete an interrupted installation, as far as possible."""

    def conflicting_sources(self) -> t.List[str]:
        """Files with package sources that the package manager would refuse together with the role's own."""
        return []

    def enable_stream(self, stream: str, optional: bool) -> bool:
        """Enable a module stream, unless in check mode. Returns whether that is a change."""
        return False

    def preference(self, patterns: t.Sequence[str], version: str) -> t.Optional[bytes]:
        """The pin that prefers a version of these packages."""
        return None

    def pinned(self) -> t.Optional[bytes]:
        """The role's present pin."""
        return None

    def pin(self, preference: t.Optional[bytes]) -> None:
        """Replace or remove the role's pin."""

    def removable(self, names: t.Sequence[str], dependencies: t.Collection[str]) -> t.List[str]:
        """The packages whose removal removes no others, except for their own dependencies."""
        allowed = {*names, *dependencies}

        def removes_only(some: t.Sequence[str]) -> bool:
            removed = self.removed_with(some)
            return removed is not None and removed <= allowed

        return list(names) if removes_only(names) else [name for name in names if removes_only([name])]

    def removed_with(self, names: t.Sequence[str]) -> t.Optional[t.Set[str]]:
        """These packages and all that need them, as if there were no holds. None if they cannot be removed."""
        raise NotImplementedError
