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
import typing as t

from ..common import exclusive, files, record
from . import choice, dkms, holds, transaction
from .choice import Choice, Package, Refusal, Status
from .manager import CommandError, Repository, Simulation
from .node import Failure, NodePackages

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "role": {"type": "str", "required": True},
        "host": {"type": "str", "default": ""},
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

Data = t.Dict[str, t.Any]


def run(module: AnsibleModule) -> None:
    node = NodePackages(module)
    state = STATES[module.params["state"]]
    try:
        with contextlib.ExitStack() as stack:
            if state in (present, absent):
                if not module.check_mode:
                    stack.enter_context(_locked(module.params["lock_timeout"], node.host))
                node.record = record.read(node.desired.role)
                node.recorded = set(node.record.get("installed", []))
            result = state(node)
    except Refusal as error:
        module.fail_json(msg="%s: %s" % (node.host, error), changed=False)
    except (Failure, record.RecordError) as error:
        module.fail_json(msg=str(error), changed=False)
    except CommandError as error:
        module.fail_json(msg=str(node.fail("", str(error))), changed=False)
    module.exit_json(**result)


@contextlib.contextmanager
def _locked(timeout: float, host: str) -> t.Iterator[None]:
    """One run of this module at a time: the next one must see what this one installed and recorded."""
    try:
        descriptor = exclusive.acquire(LOCK, timeout)
    except TimeoutError:
        raise Failure(
            "%s: Another run of this collection installs packages on the node: wait for it to finish, and run this again "
            "(%s is locked)" % (host, LOCK)
        ) from None
    except OSError as error:
        text = "%s: %s cannot be written: %s%s"
        raise Failure(text % (host, LOCK, error.strerror, files.remedy(error))) from error
    try:
        yield
    finally:
        os.close(descriptor)


# --- States -----------------------------------------------------------------------------------------------------------


def _read_record(node: NodePackages) -> t.List[str]:
    """The problem of a record that cannot be read."""
    try:
        node.record = record.read(node.desired.role)
    except record.RecordError as error:
        return [str(error)]
    return []


def _obstacles(node: NodePackages, packages: t.Sequence[Package], damaged: t.List[str]) -> t.List[str]:
    """What would block an installation: package sources that apt refuses, a damaged record, or else foreign holds."""
    sentence = (
        "%s has the repository %s with another key than this role (%s), and apt reads no package source then. Remove the "
        "file, or the package that it belongs to (dpkg --search)"
    )
    own = node.repository
    sources = [sentence % (path, own.url, own.key) for path in node.manager.conflicting_sources()]
    return sources + (damaged or _hold_problems(node, packages))


def _hold_problems(node: NodePackages, packages: t.Sequence[Package]) -> t.List[str]:
    """Foreign holds that block the packages, before the package sources are configured and read."""
    now = node.status(packages)
    version = choice.kept_version(now, node.desired)
    if version is None and node.desired.branch and node.foreign_holds():
        version = _known_newest(node, now)
    try:
        transaction.refuse_foreign_holds(node, packages, now, holds.Target(version, node.desired.branch))
    except Refusal as error:
        return [str(error)]
    return []


def _known_newest(node: NodePackages, now: Status) -> t.Optional[str]:
    """The newest version according to the present package lists; None if these do not offer the branch."""
    with contextlib.suppress(Refusal, CommandError):
        return choice.select_version(now, _list_offers(node), node.desired)
    return None


def verified(node: NodePackages) -> Data:
    packages = _settled_packages(node)
    now = node.status(packages)
    differences = choice.differences(now, node.desired)
    problems = list(differences)
    missing_holds, _released = node.hold_changes(now)
    if missing_holds and now.version:
        problems.append("not held, so a system upgrade changes the version: " + ", ".join(missing_holds))
    damaged = _read_record(node)
    found: Data = {
        "problems": problems + damaged,
        "differences": differences,
        "obstacles": _obstacles(node, packages, damaged),
    }
    return _result(node, packages, packages, False, version=now.version, **found)


def absent(node: NodePackages) -> Data:
    before = node.manager.packages()
    if node.recorded and not before:
        raise CommandError("The package manager lists no package at all: its database may be damaged.")
    installed = _names(before)
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
        return _result(node, before, after, changed, kept=kept)
    node.manager.hold([], active_holds)
    node.manager.pin(None)
    if names:
        node.manager.remove(names)
    if node.record:
        node.update_record({"installed": [], "held": [], "dependencies": []}, {})
    return _result(node, before, node.manager.packages(), changed, kept=kept)


def present(node: NodePackages) -> Data:
    before = packages = _settled_packages(node)
    if node.status(packages).broken and not node.check:
        node.manager.recover()  # what cannot be configured may differ from the packages of the requested version
        packages = node.manager.packages()
    now = node.status(packages)
    offers = _offers(node, now)
    if offers is None:
        return _preview_without_offers(node, before, now)
    chosen = choice.choose(packages, now, offers, node.desired, node.manager.separator)
    simulation = None
    if chosen.install:
        transaction.refuse_foreign_holds(node, packages, now, holds.Target(chosen.version))
        chosen, simulation = transaction.simulated(node, chosen)
    former, pin = node.manager.pinned(), transaction.pin(node, chosen.version)
    if node.check:
        return _preview(node, before, now, chosen, former != pin, simulation)
    node.manager.pin(pin)
    if simulation:
        _install(node, packages, chosen, simulation, former)
    packages = node.manager.packages()
    now = node.status(packages)
    _require_complete(node, now, chosen)
    own_holds, holds_changed = _hold(node, now)
    _record(node, packages, before, now, own_holds)
    built = _build(node, chosen)  # packages whose module cannot be built are held and recorded too
    return _result(node, before, node.manager.packages(), former != pin or holds_changed or built, version=now.version)


STATES: t.Mapping[str, t.Callable[[NodePackages], Data]] = {
    "present": present,
    "absent": absent,
    "verified": verified,
}

# --- Steps ------------------------------------------------------------------------------------------------------------


def _settled_packages(node: NodePackages) -> t.List[Package]:
    """The packages, after another package manager that is installing some of them has finished."""
    packages = node.manager.packages()
    if not node.status(packages).broken:
        return packages
    node.manager.wait()
    return node.manager.packages()


def _offers(node: NodePackages, now: Status) -> t.Optional[choice.Offers]:
    """What the package sources offer; empty if nothing is needed, None if that is unknown in check mode."""
    needed = choice.needs_offers(now, node.desired)
    if not (needed or node.repository.added):
        return {}
    if not node.check:
        try:
            node.manager.refresh()
        except CommandError as error:
            raise _unusable_source(node, str(error)) from error
    stream = node.given["stream"]  # determines which packages of a repository dnf offers
    node.enables_stream = bool(stream) and node.manager.enable_stream(stream, node.given["stream_optional"])
    if node.check and (node.repository.added or node.enables_stream):
        return None if needed else {}
    offers = _list_offers(node)
    return None if node.check and not any(offers.values()) else offers


def _list_offers(node: NodePackages) -> choice.Offers:
    names = [*node.desired.packages, *node.desired.optional_packages]
    # Distributions have packages with the same names, which cannot be combined with those of the role's repository.
    return node.manager.offers(names, set(filter(node.desired.shares_version, names)))


def _unusable_source(node: NodePackages, output: str) -> Failure:
    """Remove a source that cannot be used, because every later use of the package manager would fail."""
    repository = node.repository
    # Also if an interrupted run added the source and installed nothing from it.
    is_new = repository.added or not (node.record.get("version") or node.record.get("installed"))
    if not (is_new and os.path.isfile(repository.file) and _is_about(output, repository)):
        url = " (the role's is %s)" % repository.url if repository.url else ""
        return node.fail("The package sources cannot be used%s." % url, output)
    os.remove(repository.file)
    return node.fail("The repository %s cannot be used, and was removed again." % repository.url, output)


def _is_about(output: str, repository: Repository) -> bool:
    """Whether the output names the role's own source. For a bad signature, dnf names only the section of the file."""
    names = [repository.url.rstrip("/"), repository.file, *("'%s'" % each for each in repository.sections())]
    return any(name in output for name in names if name)


def _install(
    node: NodePackages,
    packages: t.Sequence[Package],
    chosen: Choice,
    simulation: Simulation,
    former_pin: t.Optional[bytes],
) -> None:
    new = {name for name in simulation.new if node.desired.in_scope(name)} | set(node.status(packages).missing)
    dependencies = {name for name in simulation.new if not node.desired.in_scope(name)}
    node.update_record({}, {"installed": new, "dependencies": dependencies} if dependencies else {"installed": new})
    try:
        node.manager.install(chosen.install, chosen.downgrade, node.active_holds())
    except CommandError:
        installed = node.manager.packages()
        node.update_record({"installed": sorted(_names(installed).intersection(node.record["installed"]))}, {})
        if _versions(installed) == _versions(packages):
            node.manager.pin(former_pin)
        raise


def _versions(packages: t.Sequence[Package]) -> t.Set[Package]:
    return {each._replace(held=False) for each in packages}


def _names(packages: t.Sequence[Package]) -> t.Set[str]:
    return {name for each in packages for name in (each.name, each.full_name)}


def _build(node: NodePackages, chosen: Choice) -> bool:
    """Whether the kernel module was built, or would be."""
    if not (node.given["dkms"] and node.manager.checks_builds and chosen.version):
        return False
    return dkms.build_missing(node.commands, chosen.version, os.uname().release, node.check)


def _require_complete(node: NodePackages, now: Status, chosen: Choice) -> None:
    if now.incomplete or (chosen.version and now.version != chosen.version):
        raise Failure(
            "%s: %s %s is not complete. Installed: %s. Missing: %s. Half installed: %s. Of another version: %s."
            % (
                node.host,
                choice.title(node.desired.role),
                chosen.version or "",
                now.version,
                ", ".join(now.absent) or "nothing",
                ", ".join(now.broken) or "nothing",
                ", ".join(now.mixed) or "nothing",
            )
        )


def _hold(node: NodePackages, now: Status) -> t.Tuple[t.List[str], bool]:
    """Hold the packages of the version, and release the role's other holds.

    Returns the role's holds, and whether any was set or released.
    """
    add, remove = node.hold_changes(now)
    own_holds = sorted({*add, *set(node.own_holds).intersection(node.desired_holds(now))})
    if add:  # recorded first: after an interruption, the holds must not count as foreign
        node.update_record({}, {"held": own_holds})
    node.manager.hold(add, remove)
    return own_holds, bool(add or remove)


def _record(
    node: NodePackages, packages: t.Sequence[Package], before: t.Sequence[Package], now: Status, own_holds: t.List[str]
) -> None:
    installed = {*node.record.get("installed", []), *set(now.scope).difference(node.status(before).scope)}
    entry: Data = {"installed": sorted(installed & _names(packages))}
    if node.desired.versioned:
        entry.update(held=own_holds, version=now.version)
    if entry != {key: node.record.get(key) for key in entry}:
        node.update_record(entry, {})


# --- Results ----------------------------------------------------------------------------------------------------------


def _preview_without_offers(node: NodePackages, before: t.Sequence[Package], now: Status) -> Data:
    """The result in check mode if the node has not read the package sources yet."""
    desired = node.desired
    names = now.missing or list(desired.packages)
    requested = (
        "version " + desired.version if desired.version else "branch " + desired.branch if desired.branch else ""
    )
    source = " from " + node.repository.url if node.repository.url else ""
    text = "Would install %s%s%s, and their dependencies" % (
        ", ".join(names),
        " of " + requested if requested else "",
        source,
    )
    if not desired.version:
        text += ". The exact version is not known before the node has read its package sources"
    return _result(
        node, before, before, True, version=desired.version or None, pending=True, msg=text + ".", install=names
    )


def _preview(
    node: NodePackages,
    before: t.Sequence[Package],
    now: Status,
    chosen: Choice,
    pinned: bool,
    simulation: t.Optional[Simulation],
) -> Data:
    if simulation is None:
        half_installed = any(each.broken for each in before if node.desired.in_scope(each.name))
        changed = pinned or half_installed or any(node.hold_changes(now)) or _build(node, chosen)
        return _result(node, before, before, changed, version=now.version)
    install = [name + node.manager.separator + version for name, version in simulation.changed] or chosen.install
    text = "Would install " + ", ".join(install)
    if simulation.removed:
        text += ", and remove " + ", ".join(simulation.removed)
    return _result(node, before, before, True, version=chosen.version, pending=True, msg=text + ".", install=install)


def _result(
    node: NodePackages,
    before: t.Sequence[Package],
    after: t.Sequence[Package],
    changed: bool,
    version: t.Optional[str] = None,
    pending: bool = False,
    install: t.Sequence[str] = (),
    **more: t.Any,
) -> Data:
    lines = [
        _described(node, before),
        _described(node, after) + "".join("would install %s\n" % each for each in install),
    ]
    return {
        "changed": changed or node.enables_stream or lines[0] != lines[1],
        "version": version,
        "pending": pending,
        "installed": node.record.get("installed", []),
        "held": node.record.get("held", []),
        "diff": {"before_header": "packages", "after_header": "packages", "before": lines[0], "after": lines[1]},
        **more,
    }


def _described(node: NodePackages, packages: t.Sequence[Package]) -> str:
    scope = [
        each for each in packages if node.desired.in_scope(each.name) or {each.name, each.full_name} & node.recorded
    ]
    lines = ["%s %s %s %s" % (each.name, each.version, "held" if each.held else "", each.broken) for each in scope]
    return "".join(sorted(line.rstrip() + "\n" for line in lines))
