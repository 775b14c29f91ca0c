# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts and variables of the roles that install charts, and plans for them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import plan as charts_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.build import ChartPlan
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import CHARTS
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Cluster, Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record as drain_record
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
SEVEN = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
UNEQUAL = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 4}}]


def variables(role: str, **given: t.Any) -> Data:
    """A role's variables without its prefix: the given ones, and defaults."""
    found, _errors = inventory_variables.validated(role, {"%s_%s" % (role, name): given[name] for name in given})
    return {name[len(role) + 1 :]: value for name, value in found.items()}


OWN = variables("gpu_operator", version="v26.7.0")
PLUGIN = variables("device_plugin", version="0.20.0", namespace="ns", release="plugin")
RECORD = drain_record.Record(cordoned=True).text()
A = Host("a", gpus=[gpu(0)], layout=SEVEN)
B = Host("b", gpus=[gpu(0), gpu(1)], layout=UNEQUAL)


def plan(
    *hosts: Host,
    role: str = "gpu_operator",
    own: t.Optional[Data] = None,
    cluster: t.Optional[Data] = None,
    **others: t.Any,
) -> Planned:
    variables = {**(OWN if role == "gpu_operator" else PLUGIN), **(own or {})}
    objects = {"nodes": {"resources": [node("a"), node("b")]}, **(cluster or {})}
    return charts_plan.plan_installation(
        Installation(CHARTS[role], variables, **others), hosts or (A, B), Cluster(**objects)
    )


def built(found: Planned) -> ChartPlan:
    assert found.plan is not None, found.problems
    return found.plan


def written(found: Planned, kind: str) -> t.List[Data]:
    """The definitions of the objects of one kind."""
    return [each.definition for each in built(found).objects if each.definition["kind"] == kind]


def problems(found: Planned) -> t.List[str]:
    assert found.plan is None
    return [problem for each in found.problems.values() for problem in each]
