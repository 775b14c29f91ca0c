# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: plan what a role installs in a cluster, and list the reasons why it cannot."""

from __future__ import annotations

import shutil
import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import agreement, inputs
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import CHARTS
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Cluster, Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned, plan_installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import permissions
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "role": {"type": "str", "required": True, "choices": sorted(CHARTS)},
        "may_be_missing": {"type": "bool", "default": False},
        "changes": {"type": "bool", "default": True},
        "check_pods": {"type": "bool", "default": True},
    }

    def perform(self, variables: Data) -> Data:
        role, hostvars, present = self._arguments["role"], variables["hostvars"], variables["ansible_play_hosts"]
        names = inventory_variables.variables_of(role).intersection(variables)
        given = {name: self._templar.template(variables[name]) for name in sorted(names)}
        own, errors = inventory_variables.validated(role, given)
        if errors:
            return Planned({present[0]: errors}, [], None, False, {}).serialized()
        hosts = [host_of(name, hostvars[name]) for name in present]
        failed = sorted(set(variables["ansible_play_hosts_all"]) - set(present))
        with_gpus = [host.name for host in hosts if host.gpus != []] or present[:1]
        selected = [each for each in CHARTS if each + "_version" in variables]
        installation = self._installation(own, agreement.variables_of_other_roles(hostvars[with_gpus[0]]), selected)
        cluster = self._cluster(installation)
        planned = plan_installation(installation, hosts, cluster, [host_of(name, hostvars[name]) for name in failed])
        problems = _merged(
            planned.problems,
            inventory_variables.forged_fact_problems_by_host(hostvars, present),
            agreement.differing_variables({**own, **given}, present, hostvars),
            agreement.differing_variables_of_other_roles(with_gpus, hostvars),
        )
        result = planned._replace(problems=problems).serialized()
        return {**result, **({"warnings": planned.warnings} if planned.warnings else {})}

    def _installation(self, own: Data, others: Data, selected: list[str]) -> Installation:
        arguments = dict(self._arguments)
        role = arguments.pop("role")
        variables = {name.removeprefix(role + "_"): value for name, value in own.items()}
        return Installation(
            chart=CHARTS[role],
            variables=variables,
            owner=others["nvidia_mig_owner"],
            reboot=others["nvidia_mig_reboot"],
            drain=others["gpu_cluster_drain"],
            on_controller=self._on_controller,
            has_helm=bool(shutil.which("helm")),
            selected=selected,
            archive=lambda: self._archive(variables["chart_file"]),
            **arguments,
        )

    def _cluster(self, installation: Installation) -> Cluster:
        objects = inputs.objects_to_read(installation)
        try:
            found = self._api.results(list(objects.values()))
        except Unreadable as error:
            return Cluster(nodes={"msg": str(error)})
        cluster = inputs.cluster_of(objects, found)
        reviews = permissions.access_reviews(inputs.required_permissions(installation, cluster))
        try:
            reviewed = self._api.call("kubernetes.core.k8s", resource_definition=reviews)["result"]
        except Unreadable as error:  # the plan warns of it
            reviewed = {"msg": str(error)}
        return cluster._replace(reviews=reviewed)

    def _archive(self, name: str) -> bytes:
        with open(self._find_needle("files", name), "rb") as file:
            return file.read()


def _merged(*found: t.Mapping[str, list[str]]) -> dict[str, list[str]]:
    """All problems of each host."""
    return {host: [problem for each in found for problem in each.get(host, ())] for host in found[0]}
