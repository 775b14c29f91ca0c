# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The packages of a node, and what a run of node_packages does with them."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..common import record
from . import causes, choice, dkms
from .apt import Apt
from .choice import Desired, Package, Status
from .dnf import Dnf
from .manager import CommandError, Commands, Repository

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


class Failure(Exception):
    """The run failed. The message is complete."""


class NodePackages:
    """The packages of a node, and what this run does with them."""

    def __init__(self, module: AnsibleModule) -> None:
        given = module.params
        self.given: t.Dict[str, t.Any] = given
        self.check: bool = module.check_mode
        self.warn = module.warn
        self.commands = Commands(module, given["lock_timeout"])
        repository = given["repository"]
        self.repository = Repository(
            repository["url"], repository["file"] or "", repository["added"], repository["key"] or ""
        )
        name = given["manager"]
        if name == "auto":
            name = "apt" if os.path.exists("/usr/bin/apt-get") else "dnf"
        manager = Apt if name == "apt" else Dnf
        self.manager: t.Union[Apt, Dnf] = manager(self.commands, given["role"], self.check, self.repository)
        self.desired = Desired(**{name: given[name] for name in Desired._fields})
        self.record: t.Dict[str, t.Any] = {}
        self.recorded: t.Set[str] = set()  # packages, before this run
        self.enables_stream = False  # or would enable it, in check mode

    def update_record(self, set: t.Mapping[str, t.Any], add: t.Mapping[str, t.Iterable[str]]) -> None:
        _before, self.record = record.update(self.desired.role, set, add)

    @property
    def own_holds(self) -> t.List[str]:
        return list(self.record.get("held", []))

    def active_holds(self) -> t.List[str]:
        """The role's holds that are set."""
        return sorted(set(self.own_holds).intersection(self.manager.holds()))

    def foreign_holds(self) -> t.List[str]:
        return [each for each in self.manager.holds() if each not in self.own_holds]

    def status(self, packages: t.Sequence[Package]) -> Status:
        return choice.package_status(packages, self.desired)

    def desired_holds(self, now: Status) -> t.List[str]:
        return self.manager.holds_for(now.to_hold) if self.given["hold"] and self.desired.versioned else []

    def hold_changes(self, now: Status) -> t.Tuple[t.List[str], t.List[str]]:
        """The holds to set, and those to release."""
        desired, current = self.desired_holds(now), self.manager.holds()
        missing = [each for each in desired if each not in current]
        return missing, [each for each in self.active_holds() if each not in desired and self.desired.versioned]

    def fail(self, text: str, output: str) -> Failure:
        """A failure whose message has the cause, the state of the node, and the ends of the logs."""
        why = causes.cause(output, self.desired.role, bool(self.repository.url))
        lines = [" ".join(filter(None, (text, why.text)))]
        broken: t.List[str] = []
        with contextlib.suppress(CommandError):
            broken = self.status(self.manager.packages()).broken
        if broken:
            lines.append("Half installed: " + ", ".join(broken))
        if broken or why.kind == "build":
            listed = dkms.status(self.commands).strip()
            path, log = dkms.newest_log()
            lines += ["dkms status: " + listed] if listed else []
            lines += ["The end of %s:" % path, *log] if log else []
        return Failure("\n".join([*lines, "Output of the package manager:", *causes.tail(output)]))
