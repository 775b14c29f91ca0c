# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: plan the installation of RKE2 on a node, or list why it is impossible."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.module_utils._common.text import NOT_ROOT
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes as cluster_nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import plan as rke2_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2.membership import NodeFacts


class ActionModule(Action):
    ARGUMENTS = {"states": {"type": "dict"}}

    def perform(self, variables: Data) -> Data:
        names = self._names(variables)
        forged = inventory_variables.forged_fact_problems(variables["ansible_facts"])
        if self._arguments["states"] is None:
            return {"names": names, **({"failed": True, "msg": forged[0]} if forged else {})}
        settings, problems = inventory_variables.validated_for_host("rke2", variables, self._templar.template)
        problems += forged
        plan: Data = {}
        notices: list[str] = []
        if not problems:
            desired = {name.removeprefix("rke2_"): value for name, value in settings.items()}
            servers = variables["groups"].get(desired["servers_group_name"], ())
            cluster_name = str(self._templar.template(variables.get("gpu_cluster_node_name")) or "").lower()
            node = _node(variables, servers, self._arguments["states"], names, cluster_name)
            if node.name in node.states:
                plan, problems, notices = rke2_plan.plan_node(desired, node)
            else:
                problems = ["the host cannot be reached, so its state is unknown"]
        if int(variables["ansible_facts"].get("effective_user_id", 0)) != 0:
            problems.insert(0, NOT_ROOT)
        missing = ["RKE2 %s is not installed. Run site.yml --tags rke2" % settings["rke2_version"]]
        differences = missing if plan.get("installs") else []
        return {"plan": plan, "problems": problems, "differences": differences, "names": names, "warnings": notices}

    def _names(self, variables: t.Mapping[str, t.Any]) -> list[str]:
        """The names that the node may have in the cluster, from the inventory alone."""
        own, hostname = (self._templar.template(variables.get(key)) for key in ("rke2_node_name", "gpu_node_hostname"))
        if own:
            return [str(own).lower()]
        host = variables["inventory_hostname"]
        others = {name.partition(".")[0] for name in variables["groups"].get("all", ()) if name != host}
        names = cluster_nodes.inventory_names(str(hostname or host))
        return [name for name in names if name == names[0] or name not in others]


def _node(
    variables: t.Mapping[str, t.Any],
    servers: t.Sequence[str],
    results: t.Mapping[str, t.Mapping[str, t.Any]],
    names: t.Sequence[str],
    cluster_name: str,
) -> NodeFacts:
    facts = variables["ansible_facts"]
    return NodeFacts(
        name=variables["inventory_hostname"],
        names=names,
        hostname=str(variables.get("gpu_node_hostname") and names[0] or facts["nodename"]).lower(),
        architecture=facts["architecture"],
        distribution="%s %s" % (facts["distribution"], facts["distribution_version"]),
        enterprise_linux=facts["distribution_major_version"] if facts["os_family"] == "RedHat" else "",
        groups=variables["groups"],
        play_hosts=variables["ansible_play_hosts_all"],
        addresses={host: _address(variables["hostvars"][host].get("ansible_facts", {})) for host in servers},
        states={host: result["state"] for host, result in results.items() if "state" in result},
        cluster_name=cluster_name,
    )


def _address(facts: t.Mapping[str, t.Any]) -> str:
    """The address of the host's default route."""
    return str(facts.get("default_ipv4", {}).get("address") or facts.get("default_ipv6", {}).get("address") or "")
