# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The resources that a host's node would advertise, under the strategy of its cluster's device plugin."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._cluster import nodes
from .._common.refusal import Refusal
from .outcome import Outcome

ROLES = ("gpu_operator", "device_plugin")


def with_resources(
    outcome: Outcome, host: nodes.Host, found: Data, values: t.Mapping[str, t.Mapping[str, t.Any]]
) -> Outcome:
    """The outcome with the resources before and after. ``found`` is that of child.py, ``values`` variables by role.

    Without the version of a chart, nothing says how the cluster advertises GPUs, and the strategy is the default.
    """
    charts = [role for role in ROLES if values[role].get(role + "_version")]
    role = charts[0] if charts else ROLES[-1]
    strategy = values[role][role + "_mig_strategy"]
    before, _why = _resources(host, found["before"], strategy)
    after, why = _resources(host, found["after"], strategy)
    problems = outcome.problems
    if why and charts and not problems:
        problems = ("%s_mig_strategy is %s: %s" % (role, strategy, why),)
    return outcome._replace(
        resources=after,
        resources_before=before,
        node=nodes.candidates(host)[0],
        state="fails" if problems and not outcome.problems else outcome.state,
        problems=problems,
    )


def _resources(host: nodes.Host, gpus: t.Sequence[Data], strategy: str) -> tuple[dict[str, int] | None, str]:
    """The resources of these GPUs; or None, and why the node advertises none."""
    try:
        return nodes.expected_resources(host._replace(gpus=gpus, layout=None), strategy), ""
    except (MigError, Refusal) as error:
        return None, str(error)
