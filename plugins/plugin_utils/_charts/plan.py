# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan what a role installs in a cluster, from its variables, the hosts' GPUs and the objects of the cluster."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host, name_of
from .._cluster.responses import unreachable
from .._common.refusal import Refusal
from . import chart as charts
from . import notices, plugin_sharing, preconditions, releases
from .build import ChartPlan, ChartTarget, build_plan
from .inputs import Cluster, Installation
from .mapping import ValueInputs


class Planned(t.NamedTuple):
    """``problems`` are grouped by host, with the cluster's problems under the first host."""

    problems: t.Dict[str, t.List[str]]
    warnings: t.List[str]
    plan: t.Optional[ChartPlan]  # None if there are problems, or if the cluster cannot be read
    missing: bool  # the cluster cannot be read, and this is accepted
    settings: t.Mapping[str, t.Any]  # the variables of the role, without its prefix

    def serialized(self) -> Data:
        """As plain data, which the tasks of the role and ``of`` read. Without warnings, and hosts without problems."""
        problems = {host: each for host, each in self.problems.items() if each}
        return {
            **(self.plan.serialized() if self.plan and not problems else {}),
            "problems": problems,
            "refusal": "; ".join("%s: %s" % (host, "; ".join(each)) for host, each in problems.items()),
            "missing": self.missing,
            "settings": self.settings,
        }

    @classmethod
    def of(cls, data: Data) -> Planned:
        """What was serialized."""
        found = ChartPlan.of(data) if "while_drained" in data else None
        return cls(data["problems"], [], found, data["missing"], data["settings"])


def plan_installation(
    installation: Installation, hosts: t.Sequence[Host], cluster: Cluster, failed: t.Sequence[Host] = ()
) -> Planned:
    """Plan for ``hosts``. The chart's values also depend on hosts that have ``failed`` before."""
    target, problems, warnings = _check(installation, hosts, cluster, failed)
    why = unreachable(cluster.nodes, installation.may_be_missing, installation.on_controller)
    problems[hosts[0].name][:0] = [why] if why else []
    missing = not (cluster.is_readable or why)
    if missing:
        text = "the cluster cannot be read yet, so %s cannot show its changes"
        warnings.append(text % installation.chart.role)
    if target is None:
        return Planned(problems, warnings, None, missing, installation.variables)
    warnings += notices.chart_notices(installation, target.hosts, target.nodes, cluster, target.values)
    plan = None
    try:
        plan = build_plan(installation, target, cluster)
    except Refusal as error:
        problems[hosts[0].name].append("namespace %s: %s" % (installation.variables["namespace"], error))
    return Planned(problems, warnings, plan, False, installation.variables)


def _check(
    installation: Installation, hosts: t.Sequence[Host], cluster: Cluster, failed: t.Sequence[Host]
) -> tuple[ChartTarget | None, dict[str, list[str]], list[str]]:
    """The target, unless there are problems or the cluster cannot be read; problems by host; warnings about hosts."""
    nodes = {name_of(node): node for node in cluster.nodes.get("resources") or ()}
    matched = preconditions.match_nodes(installation, hosts, nodes) if cluster.is_readable else ({}, {}, [])
    by_node, node_problems, joining = matched
    expected, layout_problems = preconditions.expected_nodes(installation, hosts)
    unused = notices.unused_instances(installation, hosts, expected)
    inputs = ValueInputs(
        variables=installation.variables,
        owner=installation.owner,
        reboot=installation.reboot,
        rke2=any(map(cluster_nodes.is_rke2, nodes.values())),
        mig_unused=bool(unused or _has_unused_instances(installation, failed)),
        sharing=_shares(installation, by_node, nodes, cluster),
    )
    values, value_problems = charts.chart_values(installation.chart, inputs)
    shared = [
        *preconditions.variable_problems(installation),
        *(preconditions.cluster_problems(installation, cluster) if cluster.is_readable else []),
        *(value_problems or preconditions.sharing_problems(hosts, values)),
    ]
    problems = {host.name: [*node_problems.get(host.name, ()), *layout_problems[host.name]] for host in hosts}
    problems[hosts[0].name] = [*shared, *problems[hosts[0].name]]
    complete = cluster.is_readable and not any(problems.values())
    return ChartTarget(values, nodes, by_node, expected) if complete else None, problems, joining + unused


def _has_unused_instances(installation: Installation, hosts: t.Sequence[Host]) -> bool:
    return bool(notices.unused_instances(installation, hosts, preconditions.expected_nodes(installation, hosts)[0]))


def _shares(
    installation: Installation, by_node: t.Mapping[str, Host], nodes: t.Mapping[str, Data], cluster: Cluster
) -> bool:
    """Whether the chart reads our configurations of sharing.

    The end of sharing must not restart the device plugins, because drained nodes are shared until later.
    """
    is_ours = releases.value_at(installation.variables["values"], installation.chart.plugin_config) is None
    return plugin_sharing.is_used(by_node, nodes) or (is_ours and bool(cluster.plugin_config_map.get("resources")))
