# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The results of node_packages, and what check mode says."""

from __future__ import annotations

import typing as t

from ..._common.data import Data
from . import installation
from .choice import Choice, Package, Status
from .manager import Simulation
from .node import NodePackages


def preview_without_offers(node: NodePackages, before: t.Sequence[Package], now: Status) -> Data:
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
    return result(node, before, before, True, version=desired.version or None, msg=text + ".", install=names)


def downgrade(packages: t.Sequence[Package], chosen: Choice, simulation: Simulation) -> str:
    """The warning about single packages that are later than the version of most."""
    names = {name.split(":")[0] for name in simulation.downgraded}  # apt may append :ARCHITECTURE
    newer = ["%s %s" % (each.name, each.version) for each in packages if each.name in names]
    requested = chosen.version or ", ".join(chosen.install)
    return "%s is installed, and %s is requested, which is a downgrade" % (", ".join(newer), requested)


def preview(
    node: NodePackages,
    before: t.Sequence[Package],
    now: Status,
    chosen: Choice,
    pinned: bool,
    simulation: t.Optional[Simulation],
) -> Data:
    if simulation is None:
        half_installed = any(each.broken for each in before if node.desired.in_scope(each.name))
        changed = (
            pinned or half_installed or any(node.hold_changes(now)) or installation.build(node, chosen, check=True)
        )
        return result(node, before, before, changed, version=now.version)
    install = [name + node.manager.separator + version for name, version in simulation.changed] or chosen.install
    text = "Would install " + ", ".join(install)
    if simulation.removed:
        text += ", and remove " + ", ".join(simulation.removed)
    return result(node, before, before, True, version=chosen.version, msg=text + ".", install=install)


def result(
    node: NodePackages,
    before: t.Sequence[Package],
    after: t.Sequence[Package],
    changed: bool,
    version: t.Optional[str] = None,
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
        "would_install": bool(install),
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
