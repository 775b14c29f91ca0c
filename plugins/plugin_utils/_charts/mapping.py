# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which variables of a role set which values of its chart: a table of one row for each value."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._common.text import short
from . import releases


class Value(t.NamedTuple):
    """A value of the chart that a variable sets."""

    path: str  # such as migManager.enabled
    variable: str  # without the prefix of the role
    convert: t.Callable[[t.Any], t.Any] | None = None  # from the variable to the value, if they differ
    replaceable: bool = False  # whether ROLE_values may have another value, instead of contradicting the variable


class ValueInputs(t.NamedTuple):
    """What the values of a chart depend on."""

    variables: t.Mapping[str, t.Any]  # of the role, without its prefix
    owner: str = "host"  # of MIG: host or operator
    reboot: bool = False  # whether the MIG manager may reboot a node
    rke2: bool = False  # the nodes run RKE2 or k3s
    mig_unused: bool = False  # with the strategy none, pods get GPUs that have MIG instances
    sharing: bool = False  # whether GPUs of any node are shared


def mapped_values(table: t.Iterable[Value], variables: t.Mapping[str, t.Any], computed: Data) -> Data:
    """The values to install: those of variables and the other computed ones, overridden by ROLE_values."""
    return releases.merged(releases.merged(_of_variables(table, variables), computed), variables["values"])


def contradictions(role: str, table: t.Iterable[Value], variables: t.Mapping[str, t.Any]) -> list[str]:
    """A problem for each variable whose value ROLE_values replaces."""
    computed, result = _of_variables(table, variables), mapped_values(table, variables, {})
    out = []
    for row in table:
        desired, found = releases.value_at(computed, row.path), releases.value_at(result, row.path)
        if not row.replaceable and desired is not None and found != desired:
            name = "%s_%s" % (role, row.variable)
            out.append(
                "%s_values.%s is %s, but %s is %s: set only %s"
                % (role, row.path, short(found), name, short(variables[row.variable]), name)
            )
    return out


def _of_variables(table: t.Iterable[Value], variables: t.Mapping[str, t.Any]) -> Data:
    """An empty variable leaves the chart's default."""
    out: Data = {}
    for row in table:
        given = variables[row.variable]
        if given not in ("", [], {}, None):
            *sections, key = row.path.split(".")
            section = out
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = row.convert(given) if row.convert else given
    return out
