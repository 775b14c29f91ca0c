# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether the hosts of a play agree on variables of which a role that runs once for all of them has one value."""

from __future__ import annotations

import typing as t

from .._common.truth import is_true

Variables = t.Mapping[str, t.Any]

# Variables of other roles that the plan depends on.
_OTHERS: t.Mapping[str, t.Callable[[object], t.Any]] = {
    "nvidia_mig_owner": lambda value: str(value or "host"),
    "nvidia_mig_reboot": is_true,
    "gpu_cluster_drain": is_true,
}


def variables_of_other_roles(variables: Variables) -> dict[str, t.Any]:
    """The variables of other roles that the plan depends on, with their defaults."""
    return {name: kind(variables.get(name)) for name, kind in _OTHERS.items()}


def differing_variables(
    expected: Variables, hosts: t.Sequence[str], hostvars: t.Mapping[str, Variables]
) -> dict[str, list[str]]:
    """Problems by host: variables of a role that differ from ``expected``, those of the first host with defaults."""
    first, *others = hosts
    return {host: _different(expected, hostvars[host], first) for host in others}


def differing_variables_of_other_roles(
    hosts: t.Sequence[str], hostvars: t.Mapping[str, Variables]
) -> dict[str, list[str]]:
    """The same for the variables of other roles. ``hosts`` are those with GPUs."""
    first, *others = hosts
    expected = variables_of_other_roles(hostvars[first])
    if expected["nvidia_mig_owner"] != "operator":
        del expected["nvidia_mig_reboot"]  # otherwise it is a value of the chart
    return {host: _different(expected, variables_of_other_roles(hostvars[host]), first) for host in others}


def _different(expected: Variables, given: Variables, first: str) -> list[str]:
    return [
        "%s differs from its value on %s, but cluster roles run once for all hosts: use one value for all"
        % (name, first)
        for name in sorted(expected)
        if name in given and given[name] != expected[name]
    ]
