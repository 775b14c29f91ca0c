# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What an installation would change, and whether it may: the run and its preview both decide here."""

from __future__ import annotations

import contextlib
import typing as t

from . import choice, holds
from .choice import Choice, Package, Refusal, Status
from .manager import CommandError, Simulation
from .node import Node


def pin(node: Node, version: t.Optional[str], preview: bool = False) -> bool:
    """Pin the exact version if it is to be held, else the branch."""
    desired = node.desired
    if not desired.versioned:
        return False
    exact = "" if not version else version if "-" in version else version + "-*"
    branch = desired.branch + ".*" if desired.branch else ""
    patterns = [each for each in desired.family or desired.packages if not each.startswith("!")]
    return node.manager.pin(patterns, exact if node.given["hold"] else branch, preview)


def simulated(node: Node, chosen: Choice) -> t.Tuple[Choice, Simulation]:
    """The choice with the optional packages if they can be installed, and its simulation. Changes nothing.

    The installation and its preview both start here, so that they refuse the same.
    """
    pin(node, chosen.version, preview=True)
    released = node.releasable_holds()
    if chosen.optional:
        more = chosen._replace(install=[*chosen.install, *chosen.optional], optional=[])
        with contextlib.suppress(Refusal, CommandError):
            return more, _checked(node, more, released)
    return chosen, _checked(node, chosen, released)


def _checked(node: Node, chosen: Choice, released: t.Sequence[str]) -> Simulation:
    simulation = node.manager.simulate(chosen.install, chosen.downgrade, released)
    if not simulation.possible:
        _refuse_blocking_holds(node, chosen)
        raise CommandError(simulation.output)
    _refuse_foreign_changes(node, chosen, simulation)
    return simulation


def refuse_foreign_holds(node: Node, packages: t.Sequence[Package], now: Status, target: holds.Target) -> None:
    held = node.manager.holds()
    if node.manager.releases:
        holds.refuse_held(packages, held, now, target, node.own_holds, node.desired)
    else:
        locks = [line for line in held if line not in node.own_holds]
        holds.refuse_known_locks(locks, packages, now, target, node.desired)


def _refuse_blocking_holds(node: Node, chosen: Choice) -> None:
    """Name the foreign holds without which the installation would be possible; apt does not."""
    foreign = [each for each in node.manager.packages() if each.held and each.name not in node.own_holds]
    if not (foreign and node.manager.releases):
        return
    simulation = node.manager.simulate(chosen.install, chosen.downgrade, node.manager.holds())
    if simulation.possible:
        changed = {*dict(simulation.changed), *simulation.removed}
        blocking = ["%s %s" % (each.name, each.version) for each in foreign if each.name in changed]
        holds.refuse(blocking, holds.Target(chosen.version), node.desired)


def _refuse_foreign_changes(node: Node, chosen: Choice, simulation: Simulation) -> None:
    """Fail if packages of others would be removed, their kernel modules would stay, or their locks of dnf block it."""
    own = {*node.record.get("installed", []), *node.record.get("dependencies", [])}
    bare = {name: name.split(":")[0] for name in simulation.removed}  # apt may append :ARCHITECTURE
    foreign = sorted(name for name in bare if not (node.desired.in_scope(bare[name]) or {name, bare[name]} & own))
    if foreign:
        raise Refusal(
            "installing %s would remove %s, which this role does not manage: remove it yourself, or choose another branch "
            "or version" % (", ".join(chosen.install), ", ".join(foreign))
        )
    if chosen.version:
        touched = {*bare, *bare.values(), *(name.split(":")[0] for name, _version in simulation.changed)}
        left = choice.leftover_modules(node.manager.packages(), touched, own, chosen.version, node.desired)
        if left:
            raise Refusal(
                "%s, which this role did not install, would stay beside %s %s and have another kernel module: remove it "
                "yourself, or set %s_source and %s_kernel_modules to its source and kind"
                % (", ".join(left), choice.title(node.desired.role), chosen.version, *[node.desired.role] * 2)
            )
    if not node.manager.releases:
        locks = [line for line in node.manager.holds() if line not in node.own_holds]
        holds.refuse_locks(locks, simulation.changed, chosen.version, node.desired)
