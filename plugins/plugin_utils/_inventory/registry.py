# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select the roles of a run from the registry of gpu_node, the variable gpu_node_roles and Ansible's tags."""

from __future__ import annotations

import typing as t

from .._common.truth import is_true

ALL = "all"


class Row(t.NamedTuple):
    """One role of the registry."""

    role: str
    tag: str
    enabled: bool  # whether gpu_node_roles: [all] includes it for this host
    scope: str = "node"  # node: runs on every host, in batches; cluster: once, after all batches
    plan: bool = False  # whether its entry point plan says why its changes would interrupt pods


class Tags(t.NamedTuple):
    """The tags of a run, and those that every task of the calling play or import has."""

    run: t.Collection[str] = (ALL,)
    skip: t.Collection[str] = ()
    inherited: t.Collection[str] = ()

    def select(self, tag: str) -> bool:
        """Whether Ansible would run a task with this tag. The tag "always" does not select a role."""
        tags = {tag, *self.inherited} - {"always"}
        if tags.intersection(self.skip) or {ALL, "tagged"}.intersection(self.skip):
            return False
        return bool(tags.intersection(self.run) or {ALL, "tagged"}.intersection(self.run))


class Selection(t.NamedTuple):
    """The roles of a run on a host."""

    enabled: list[str]
    validated: list[str]  # whose variables are validated
    selected: list[str]  # of the scope
    unrequested: list[str]
    unknown: list[str]  # problems
    compares_boards: bool
    updates: t.Sequence[str] = ()  # the selected roles with a plan
    interrupts: bool = False  # whether a selected role may interrupt the work of a node


def parse_rows(registry: t.Iterable[t.Mapping[str, t.Any]]) -> list[Row]:
    # Before ansible-core 2.19, a template in the registry returns a string.
    return [
        Row(
            str(row["role"]),
            str(row["tag"]),
            is_true(row.get("enabled", True)),
            str(row.get("scope", "node")),
            is_true(row.get("plan", False)),
        )
        for row in registry
    ]


def enabled_roles(registry: t.Sequence[Row], requested: object) -> list[str]:
    """The roles of gpu_node_roles, in the registry's order. A value that is invalid enables nothing."""
    names = [name for name in requested if isinstance(name, str)] if isinstance(requested, (list, tuple)) else []
    return [row.role for row in registry if row.role in names or (ALL in names and row.enabled)]


def unrequested_roles(
    registry: t.Sequence[Row], requested: object, tags: Tags, record: object, given: t.Iterable[str]
) -> list[str]:
    """The selected roles of a node that only "all" and no narrower setting requests, if only nvidia_mig has run there.

    ``record`` is what the roles recorded on the node, by role. A role is requested by its name in gpu_node_roles, by its
    tag, and by any of its variables; ``given`` are the roles of which the inventory sets variables.
    """
    if not isinstance(record, dict) or set(record) != {"nvidia_mig"} or not isinstance(requested, (list, tuple)):
        return []
    return [
        row.role
        for row in registry
        if row.role in selected_roles(registry, enabled_roles(registry, requested), tags)
        and row.scope == "node"
        and row.role not in ("gpu_node", "nvidia_mig", *requested, *given)
        and row.tag not in tags.run
    ]


def unknown_role_problems(registry: t.Sequence[Row], requested: object) -> list[str]:
    """A problem for each name in gpu_node_roles that is not a role."""
    known = [ALL, *(row.role for row in registry)]
    names = requested if isinstance(requested, (list, tuple)) else []
    return [
        "gpu_node_roles names %r, which is not a role of this collection: use %s" % (str(name), ", ".join(known))
        for name in names
        if name not in known
    ]


def selected_roles(registry: t.Sequence[Row], names: t.Collection[str], tags: Tags) -> list[str]:
    """The enabled roles that the tags select, in the registry's order."""
    return [row.role for row in registry if row.role in names and tags.select(row.tag)]


def roles_of_scope(registry: t.Iterable[Row], names: t.Iterable[str], scope: str) -> list[str]:
    """The names of roles with this scope. "all": all of them."""
    others = {row.role for row in registry if scope not in ("all", row.scope)}
    return [name for name in names if name not in others]


def select_roles(
    registry: t.Sequence[Row],
    requested: object,
    tags: Tags,
    record: object,
    given: t.Iterable[str],
    all_roles: bool = False,
    scope: str = "all",
) -> Selection:
    """The roles of a host; see ``unrequested_roles`` and ``roles_of_scope``. ``all_roles`` ignores gpu_node_roles."""
    ignored = unrequested_roles(registry, requested, tags, record, given)
    names = [role for role in enabled_roles(registry, requested) if role not in ignored]
    if all_roles:
        names = [row.role for row in registry]
    chosen = selected_roles(registry, names, tags)
    updates = [row.role for row in registry if row.plan and row.role in chosen]
    return Selection(
        enabled=names,
        # The tag "always" validates the variables of all roles, without the roles' own checks.
        validated=names if "always" in tags.run else chosen,
        selected=roles_of_scope(registry, chosen, scope),
        unrequested=ignored,
        unknown=unknown_role_problems(registry, requested),
        compares_boards=_compares_boards(registry, names, tags),
        updates=updates,
        interrupts=bool(updates) or "nvidia_mig" in chosen,
    )


def _compares_boards(registry: t.Iterable[Row], names: t.Collection[str], tags: Tags) -> bool:
    """A missing GPU blocks the provisioning of a node, but not a change of the layout alone."""
    driver = [row.tag for row in registry if row.role == "nvidia_driver"]
    return any(map(tags.select, driver)) and not {"gpu_node", "nvidia_driver"}.isdisjoint(names)
