# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The reasons why a role cannot install its chart, or apply the layouts of its hosts."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._cluster import mig_configs, permissions
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host
from .._cluster.readiness import ExpectedNode
from .._common.refusal import Refusal
from .._drain import record
from .._layout import problems as layout_problems
from .._layout import sharing as layout_sharing
from . import helm_chart, operator_mig, owner, plugin_sharing, releases
from .chart import CHARTS
from .inputs import Cluster, Installation, installation_method, objects_to_read, unreadable_objects

Problems = t.Dict[str, t.List[str]]  # by host

_NO_HELM = (
    "the controller lacks the command helm, which installs charts in a cluster without helm-controller: install it, or set "
    "gpu_cluster_host to a server of the cluster"
)
_NEEDED_BY_HELM = (
    "use one with the ClusterRole cluster-admin, because helm needs the permissions for all objects of the chart"
)


def variable_problems(installation: Installation) -> list[str]:
    """Variables that contradict each other, and a chart that is not the expected one."""
    chart = installation.chart
    out = []
    if chart.part_of in installation.selected:
        out.append(
            "%s_version and %s_version are both set, but the chart of %s includes the components of %s: remove "
            "one of them" % (chart.role, chart.part_of, chart.part_of, chart.role)
        )
    elif installation.owner == "operator" and not chart.has_mig_manager:
        out.append(
            "nvidia_mig_owner is operator, but the chart of %s has no MIG manager: use the role %s, or set nvidia_mig_owner "
            "to host (in a managed cluster, remove nvidia_mig_layout)"
            % (chart.role, " or ".join(each.role for each in CHARTS.values() if each.has_mig_manager))
        )
    return [*out, *helm_chart.wrong_checksum(chart.role, installation.variables, installation.archive)]


def cluster_problems(installation: Installation, cluster: Cluster) -> list[str]:
    """Objects that cannot be read, conflicting components, missing permissions, and nothing that installs the chart."""
    unreadable = unreadable_objects(objects_to_read(installation), cluster)
    if unreadable:  # they could include another owner of the GPUs
        return unreadable
    daemonsets, policies = cluster.daemonsets["resources"], cluster.policies["resources"]
    remedy = _NEEDED_BY_HELM if installation_method(installation, cluster) == "helm" else permissions.BIND
    denied = permissions.denial(cluster.reviews, remedy)
    return [
        *owner.common_conflicts(installation.chart.role, daemonsets),
        *installation.chart.conflicts(installation.release, daemonsets, policies),
        *filter(None, [denied]),
        *_of_method(installation, cluster),
    ]


def _of_method(installation: Installation, cluster: Cluster) -> list[str]:
    if installation.variables["method"] == "helm_chart" and not cluster.helm_charts.get("api_found"):
        return [
            "%s_method is helm_chart, but the cluster has no helm-controller, which is part of RKE2 and k3s: set it to helm"
            % installation.chart.role
        ]
    needs_helm = installation_method(installation, cluster) == "helm" and installation.on_controller
    return [_NO_HELM] if needs_helm and not installation.has_helm else []


def match_nodes(
    installation: Installation, hosts: t.Sequence[Host], nodes: t.Mapping[str, Data]
) -> tuple[dict[str, Host], Problems, list[str]]:
    """The hosts by the name of their node, problems by host, and warnings. Hosts without GPUs need not be nodes."""
    found, problems = cluster_nodes.nodes_of_hosts(hosts, sorted(nodes))
    by_node = {found[host.name]: host for host in hosts if host.name in found}
    warnings: list[str] = []
    for host in hosts:
        if host.name in found:
            problems[host.name] += _of_node(installation, host, nodes[found[host.name]])
        elif installation.may_be_missing:  # the host may join the cluster later in the run
            warnings += ["%s: %s, unless this run adds it" % (host.name, why) for why in problems.pop(host.name, ())]
    return by_node, problems, warnings


def _of_node(installation: Installation, host: Host, node: Data) -> list[str]:
    return [
        *owner.label_problems(node, installation.owner),
        *plugin_sharing.sharing_problems(host, node),
        # With drains, this run returns the node. A damaged record is reported with the labels.
        *([] if installation.drain else record.interrupted(node)),
        *(operator_mig.label_problems(host, node) if installation.uses_mig_manager else []),
    ]


def expected_nodes(installation: Installation, hosts: t.Iterable[Host]) -> tuple[dict[str, ExpectedNode], Problems]:
    """The expected state of each host's node, by host, and layouts that the MIG strategy or the owner does not support."""
    strategy = installation.variables["mig_strategy"]
    expected: dict[str, ExpectedNode] = {}
    problems: Problems = {}
    for host in hosts:
        missing = operator_mig.without_layout(host) if installation.uses_mig_manager else []
        # The same text as that of the role nvidia_mig, so that preflight lists it once.
        malformed = [] if host.layout is None else layout_problems.of_variable(host.layout)
        problems[host.name] = [*missing, *malformed]
        if malformed:
            continue
        try:
            expected[host.name] = _expected(installation, host)
        except layout_sharing.Unshareable as error:
            problems[host.name].append(str(error))
        except (MigError, Refusal) as error:
            text = "%s (%s_mig_strategy is %s)"
            problems[host.name].append(text % (error, installation.chart.role, strategy))
    return expected, problems


def _expected(installation: Installation, host: Host) -> ExpectedNode:
    """Raises MigError and Refusal."""
    strategy = installation.variables["mig_strategy"]
    resources = cluster_nodes.expected_resources(host, strategy)
    if installation.owner == "operator" and host.layout is not None and cluster_nodes.gpus(host):
        mig_configs.layout_entries(host)  # raises an error if the MIG manager cannot apply it
    replicas = layout_sharing.replicas(layout_sharing.parse(host.sharing))
    return ExpectedNode(
        resources=resources,
        validator=installation.chart.has_validator,
        replicas={name: count for name, count in replicas.items() if name in (resources or ())},
        profile=cluster_nodes.single_profile(host, strategy),
    )


def sharing_problems(hosts: t.Iterable[Host], values: Data) -> list[str]:
    """Values of the chart that prevent the sharing of GPUs."""
    if releases.value_at(values, "gfd.enabled") is not False or not any(
        layout_sharing.uses_mps(host.sharing) for host in hosts
    ):
        return []
    return [
        "%s.mps needs GPU feature discovery, whose label starts the MPS control daemon on a node: enable it, or use "
        "timeSlicing" % layout_sharing.VARIABLE
    ]
