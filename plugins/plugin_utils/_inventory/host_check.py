# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which problems block a run on a host, and which of its roles can run their own checks."""

from __future__ import annotations

import typing as t

from . import board_differences
from . import variables as inventory_variables
from .registry import Selection

Values = t.Mapping[str, t.Any]


class HostCheck(t.NamedTuple):
    """Sentences without a full stop, and roles."""

    problems: list[str]
    warnings: list[str]
    roles: list[str]  # the selected ones whose own checks would not repeat the problems


def check_host(
    variables: Values, values: Values, unreadable: t.Mapping[str, str], roles: Selection, facts: Values, preflight: bool
) -> HostCheck:
    """Check a host's variables and its facts against each other.

    ``variables`` are all of the host. ``values`` are the collection's own that can be read, and ``unreadable`` the
    errors of the others. ``facts`` is the result of the task that gathered the facts.
    """
    forged = inventory_variables.forged_fact_problems(variables.get("ansible_facts", {}))
    unusable = "; ".join([*_not_gathered(facts, str(variables.get("inventory_hostname"))), *forged])
    gpus = facts.get("ansible_facts", {}).get("nvidia", {}).get("gpus")
    # Some machines show no GPUs before the driver is installed.
    compares = not unusable and (gpus or not preflight)
    differences = board_differences.inventory_differences(values, gpus) if compares else []
    found = inventory_variables.NOTHING
    if roles.validated or not roles.enabled:
        validated = [*dict.fromkeys(["gpu_node", *roles.validated])]
        # The layout does not fit other boards either; the role compares it with the GPUs.
        found = inventory_variables.check_variables(
            variables, values, unreadable, validated, compares_layout=not differences
        )
    problems = [*found.problems, *roles.unknown, *([unusable] if unusable else [])]
    if "gpu_node" in found.invalid:
        differences = []  # of values that are invalid
    elif roles.compares_boards:
        problems.extend(differences)
        differences = []
    excluded = {"gpu_node", *found.invalid}
    if found.layout and preflight:
        excluded.add("nvidia_mig")  # its own preflight would repeat them
    own_checks = [] if unusable else [role for role in roles.selected if role not in excluded]
    return HostCheck(problems, [*differences, *found.notices], own_checks)


def _not_gathered(facts: Values, host: str) -> list[str]:
    """Why the facts of the host could not be gathered; empty if they were."""
    why = str(facts.get("msg", "")).strip()
    if facts.get("unreachable"):
        remedy = "To continue without it, set gpu_node_skip to unreachable, or add --limit '!%s'" % host
        return ["it cannot be reached: %s. %s" % (why.rstrip("."), remedy)]
    return ["its facts cannot be gathered: %s" % why] if facts.get("failed") else []
