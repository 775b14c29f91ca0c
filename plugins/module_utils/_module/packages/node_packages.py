# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module node_packages: installs packages, holds them at their version, and records them.

Not tasks with apt, dnf and dpkg_selections, for two reasons. In check mode, these modules know neither the pin nor that the
holds will be released, so they fail or show another installation. And pin, record, release, installation and holds are
one step: under one lock, and completed or undone after an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from ..._common.data import Data
from ..common import exclusive, files, record
from . import choice, holds, installation, results, transaction
from .choice import Package, Refusal, Status
from .manager import CommandError
from .node import Failure, NodePackages

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "role": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
        "manager": {"type": "str", "choices": ["auto", "apt", "dnf"], "default": "auto"},
        "packages": {"type": "list", "elements": "str", "default": []},
        "version": {"type": "str", "default": ""},
        "branch": {"type": "str", "default": ""},
        "upgrade": {"type": "bool", "default": False},
        "hold": {"type": "bool", "default": True},
        "family": {"type": "list", "elements": "str", "default": []},
        "independent": {"type": "list", "elements": "str", "default": []},
        "optional_packages": {"type": "list", "elements": "str", "default": []},
        "kernel_packages": {"type": "list", "elements": "str", "default": []},
        "stream": {"type": "str", "default": ""},
        "stream_optional": {"type": "bool", "default": False},
        "headers": {"type": "str", "default": ""},
        "dkms": {"type": "bool", "default": False},
        "minimum_version": {"type": "str", "default": ""},
        "minimum_for": {"type": "str", "default": ""},
        "repository": {
            "type": "dict",
            "default": {},
            "options": {
                "url": {"type": "str", "default": ""},
                "file": {"type": "path"},
                "added": {"type": "bool", "default": False},
                "key": {"type": "path"},
            },
        },
        "lock_timeout": {"type": "int", "default": 600},
    }
}
LOCK = exclusive.PACKAGES
_URL = re.compile("https?://|file:/")


def run(module: AnsibleModule) -> None:
    node = NodePackages(module)
    state = STATES[module.params["state"]]
    try:
        with contextlib.ExitStack() as stack:
            if state in (present, absent):
                if not module.check_mode:
                    stack.enter_context(_locked(module.params["lock_timeout"]))
                node.record = record.read(node.desired.role)
                node.recorded = set(node.record.get("installed", []))
            result = state(node)
    except (Refusal, Failure, record.RecordError) as error:
        module.fail_json(msg=str(error), changed=False)
    except CommandError as error:
        module.fail_json(msg=str(node.fail("", str(error))), changed=False)
    module.exit_json(**result)


@contextlib.contextmanager
def _locked(timeout: float) -> t.Iterator[None]:
    """One run of this module at a time: the next one must see what this one installed and recorded."""
    try:
        descriptor = exclusive.acquire(LOCK, timeout)
    except TimeoutError:
        raise Failure(
            "Another run of this collection installs packages on the node: wait for it to finish, and run this again "
            "(%s is locked)" % LOCK
        ) from None
    except OSError as error:
        text = "%s cannot be written: %s%s"
        raise Failure(text % (LOCK, error.strerror, files.remedy(error))) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _read_record(node: NodePackages) -> t.List[str]:
    """The problem of a record that cannot be read."""
    try:
        node.record = record.read(node.desired.role)
    except record.RecordError as error:
        return [str(error)]
    return []


def _obstacles(node: NodePackages, packages: t.Sequence[Package], damaged: t.List[str]) -> t.List[str]:
    """What would block an installation: unusable package sources, a damaged record, or else foreign holds."""
    sentence = (
        "%s has the repository %s with another key than this role (%s), and apt reads no package source then. Remove the "
        "file, or the package that it belongs to (dpkg --search)"
    )
    own = node.repository
    scheme = (
        "%s_repository_url gives the package source %s: set it to a URL that begins with https://, http:// or file:/"
    )
    sources = [scheme % (node.desired.role, own.url)] if own.url and not _URL.match(own.url) else []
    sources += [sentence % (path, own.url, own.key) for path in node.manager.conflicting_sources()]
    return sources + (damaged or _hold_problems(node, packages))


def _hold_problems(node: NodePackages, packages: t.Sequence[Package]) -> t.List[str]:
    """Foreign holds that block the packages, before the package sources are configured and read."""
    now = node.status(packages)
    version = choice.kept_version(now, node.desired)
    if version is None and node.desired.branch and node.foreign_holds():
        version = _known_newest(node, now)
    try:
        transaction.refuse_foreign_holds(node, packages, now, holds.VersionTarget(version, node.desired.branch))
    except Refusal as error:
        return [str(error)]
    return []


def _known_newest(node: NodePackages, now: Status) -> t.Optional[str]:
    """The newest version according to the present package lists; None if these do not offer the branch."""
    with contextlib.suppress(Refusal, CommandError):
        return choice.select_version(now, installation.list_offers(node), node.desired)
    return None


def verified(node: NodePackages) -> Data:
    packages = installation.settled_packages(node)
    now = node.status(packages)
    differences = choice.package_differences(now, node.desired)
    problems = list(differences)
    damaged = _read_record(node)
    missing_holds, _released = node.hold_changes(now)
    if missing_holds and now.version:
        problems.append("not held, so a system upgrade changes the version: " + ", ".join(missing_holds))
    tag = node.desired.role.rpartition("_")[2]
    found: Data = {
        "problems": ["%s. Run site.yml --tags %s" % (problem, tag) for problem in problems] + damaged,
        "differences": differences,
        "obstacles": _obstacles(node, packages, damaged),
        "up_to_date": not damaged and installation.is_up_to_date(node, packages, now),
    }
    return results.result(node, packages, packages, False, version=now.version, **found)


def absent(node: NodePackages) -> Data:
    before = node.manager.packages()
    if node.recorded and not before:
        raise CommandError("The package manager lists no package at all: its database may be damaged.")
    installed = installation.all_names(before)
    recorded = [name for name in node.record.get("installed", []) if name in installed]
    holds.refuse_removal(sorted(set(recorded).intersection(node.foreign_holds())), node.desired)
    active_holds = node.active_holds()
    names = node.manager.removable(recorded, node.record.get("dependencies", [])) if recorded else []
    kept = sorted(set(recorded) - set(names))
    if kept:
        node.warn("Not removed, because packages that the role did not install need them: " + ", ".join(kept))
    changed = bool(node.manager.pinned() or active_holds or names)
    if node.check:
        after = [each for each in before if not {each.name, each.full_name} & set(names)]
        return results.result(node, before, after, changed, kept=kept)
    node.manager.hold([], active_holds)
    node.manager.pin(None)
    if names:
        node.manager.remove(names)
    if node.record:
        node.update_record({"installed": [], "held": [], "dependencies": []}, {})
    return results.result(node, before, node.manager.packages(), changed, kept=kept)


def present(node: NodePackages) -> Data:
    before = packages = installation.settled_packages(node)
    if node.status(packages).broken and not node.check:
        node.manager.recover()  # what cannot be configured may differ from the packages of the requested version
        packages = node.manager.packages()
    now = node.status(packages)
    downgrade = choice.is_downgrade(now, node.desired)
    if downgrade:
        node.warn(choice.package_differences(now, node.desired)[0])
    offers = installation.refreshed_offers(node, now)
    if offers is None:
        return results.preview_without_offers(node, before, now)
    chosen = choice.choose_packages(packages, now, offers, node.desired, node.manager.separator)
    simulation = None
    if chosen.install:
        transaction.refuse_foreign_holds(node, packages, now, holds.VersionTarget(chosen.version))
        chosen, simulation = transaction.simulated(node, chosen)
        if simulation.downgraded and not downgrade:
            node.warn(results.downgrade(packages, chosen, simulation))
    former, pin = node.manager.pinned(), transaction.pin(node, chosen.version)
    if node.check:
        return results.preview(node, before, now, chosen, former != pin, simulation)
    node.manager.pin(pin)
    if simulation:
        installation.install(node, packages, chosen, simulation, former)
    packages = node.manager.packages()
    now = node.status(packages)
    installation.require_complete(node, now, chosen)
    own_holds, holds_changed = installation.hold(node, now)
    installation.record_packages(node, packages, before, now, own_holds)
    # Packages whose module cannot be built are held and recorded, too.
    built = installation.build(node, chosen, check=False)
    return results.result(
        node, before, node.manager.packages(), former != pin or holds_changed or built, version=now.version
    )


STATES: t.Mapping[str, t.Callable[[NodePackages], Data]] = {
    "present": present,
    "absent": absent,
    "verified": verified,
}
