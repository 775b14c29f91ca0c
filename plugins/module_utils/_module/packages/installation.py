# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The steps of an installation, from the package sources to the record."""

from __future__ import annotations

import os
import typing as t

from . import choice, dkms, transaction
from .choice import Choice, Package, Refusal, Status
from .manager import CommandError, Repository, Simulation
from .node import Failure, NodePackages


def settled_packages(node: NodePackages) -> t.List[Package]:
    """The packages, after another package manager that is installing some of them has finished."""
    packages = node.manager.packages()
    if not node.status(packages).broken:
        return packages
    node.manager.wait()
    return node.manager.packages()


def is_up_to_date(node: NodePackages, packages: t.Sequence[Package], now: Status) -> bool:
    """Whether an installation would change nothing, not even the record, if the role's package source is unchanged."""
    if choice.needs_offers(now, node.desired):
        return False
    try:
        chosen = choice.choose_packages(packages, now, {}, node.desired, node.manager.separator)
    except Refusal:  # packages differ, or the installation would fail
        return False
    own_holds = sorted(set(node.own_holds).intersection(node.desired_holds(now)))
    return not (
        transaction.pin(node, chosen.version) != node.manager.pinned()
        or any(node.hold_changes(now))
        or _outdated_record(node, packages, packages, now, own_holds)
        or build(node, chosen, check=True)
    )


def refreshed_offers(node: NodePackages, now: Status) -> t.Optional[choice.Offers]:
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
    offers = list_offers(node)
    return None if node.check and not any(offers.values()) else offers


def list_offers(node: NodePackages) -> choice.Offers:
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


def install(
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
        node.manager.install(chosen.install, bool(simulation.downgraded), node.active_holds())
    except CommandError:
        installed = node.manager.packages()
        node.update_record({"installed": sorted(all_names(installed).intersection(node.record["installed"]))}, {})
        if _versions(installed) == _versions(packages):
            node.manager.pin(former_pin)
        raise


def _versions(packages: t.Sequence[Package]) -> t.Set[Package]:
    return {each._replace(held=False) for each in packages}


def all_names(packages: t.Sequence[Package]) -> t.Set[str]:
    """Their names, also those with version and architecture."""
    return {name for each in packages for name in (each.name, each.full_name)}


def build(node: NodePackages, chosen: Choice, check: bool) -> bool:
    """Whether the kernel module was built, or would be with ``check``."""
    if not (node.given["dkms"] and node.manager.checks_builds and chosen.version):
        return False
    return dkms.build_missing(node.commands, chosen.version, os.uname().release, check)


def require_complete(node: NodePackages, now: Status, chosen: Choice) -> None:
    if now.incomplete or (chosen.version and now.version != chosen.version):
        raise Failure(
            "%s %s is not complete. Installed: %s. Missing: %s. Half installed: %s. Of another version: %s."
            % (
                choice.title(node.desired.role),
                chosen.version or "",
                now.version,
                ", ".join(now.absent) or "nothing",
                ", ".join(now.broken) or "nothing",
                ", ".join(now.mixed) or "nothing",
            )
        )


def hold(node: NodePackages, now: Status) -> t.Tuple[t.List[str], bool]:
    """Hold the packages of the version, and release the role's other holds.

    Returns the role's holds, and whether any was set or released.
    """
    add, remove = node.hold_changes(now)
    own_holds = sorted({*add, *set(node.own_holds).intersection(node.desired_holds(now))})
    if add:  # recorded first: after an interruption, the holds must not count as foreign
        node.update_record({}, {"held": own_holds})
    node.manager.hold(add, remove)
    return own_holds, bool(add or remove)


def record_packages(
    node: NodePackages, packages: t.Sequence[Package], before: t.Sequence[Package], now: Status, own_holds: t.List[str]
) -> None:
    entry = _outdated_record(node, packages, before, now, own_holds)
    if entry:
        node.update_record(entry, {})


def _outdated_record(
    node: NodePackages, packages: t.Sequence[Package], before: t.Sequence[Package], now: Status, own_holds: t.List[str]
) -> t.Dict[str, t.Any]:
    """What the record should have; empty if it has that."""
    installed = {*node.record.get("installed", []), *set(now.scope).difference(node.status(before).scope)}
    entry: t.Dict[str, t.Any] = {"installed": sorted(installed & all_names(packages))}
    if node.desired.versioned:
        entry.update(held=own_holds, version=now.version)
    return entry if entry != {key: node.record.get(key) for key in entry} else {}
