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
from .node import NodePackages


def pin(node: NodePackages, version: t.Optional[str]) -> t.Optional[bytes]:
    """The exact version is pinned if it is to be held, else the branch."""
    desired = node.desired
    if not desired.versioned:
        return node.manager.pinned()
    exact = "" if not version else version if "-" in version else version + "-*"
    branch = desired.branch + ".*" if desired.branch else ""
    patterns = [each for each in desired.family or desired.packages if not each.startswith("!")]
    pinned = exact if node.given["hold"] else branch
    return node.manager.preference(patterns, pinned) if pinned else None


def simulated(node: NodePackages, chosen: Choice) -> t.Tuple[Choice, Simulation]:
    """The choice with the optional packages if they can be installed, and its simulation. Changes nothing.

    The installation and its preview both start here, so that they refuse the same.
    """
    if chosen.optional:
        more = chosen._replace(install=[*chosen.install, *chosen.optional], optional=[])
        with contextlib.suppress(Refusal, CommandError):
            return more, _checked(node, more)
    return chosen, _checked(node, chosen)


def _checked(node: NodePackages, chosen: Choice) -> Simulation:
    simulation = node.manager.simulate(chosen.install, pin(node, chosen.version))
    if not simulation.possible:
        raise CommandError(simulation.output)
    _refuse_foreign_changes(node, chosen, simulation)
    _refuse_holds(node, node.manager.broken(node.foreign_holds(), simulation), holds.VersionTarget(chosen.version))
    return simulation


def refuse_foreign_holds(
    node: NodePackages, packages: t.Sequence[Package], now: Status, target: holds.VersionTarget
) -> None:
    """Fail if foreign holds exclude the target, as far as that is known without a simulation."""
    sharing_version = holds.sharing_version(packages, now, node.desired)
    _refuse_holds(
        node, node.manager.excluding(node.foreign_holds(), packages, sharing_version, target, node.desired), target
    )


def _refuse_holds(node: NodePackages, blocking: holds.Blocking, target: holds.VersionTarget) -> None:
    holds.refuse(node.manager.hold_words, blocking, target, node.desired)


def _refuse_foreign_changes(node: NodePackages, chosen: Choice, simulation: Simulation) -> None:
    """Fail if packages of others would be removed, or their kernel modules would stay."""
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
                "yourself, or select its driver with %s_source, %s_branch and %s_kernel_modules"
                % (", ".join(left), choice.title(node.desired.role), chosen.version, *[node.desired.role] * 3)
            )
