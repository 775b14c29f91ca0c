# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A node's place in the cluster: its type and name, and the server that it joins."""

from __future__ import annotations

import ipaddress
import typing as t

from ...module_utils._common.data import Data
from .._inventory import kubernetes_values

SERVER, AGENT = "server", "agent"
_PORT = 9345


class NodeFacts(t.NamedTuple):
    """A node, and the known facts about its cluster."""

    name: str
    names: t.Sequence[str]  # that it may have in the cluster, according to the inventory
    hostname: str  # that it reports or will have, in lower case; RKE2's default for its name in the cluster
    architecture: str
    distribution: str  # with its version, for messages
    enterprise_linux: str  # the major version; empty for other distributions
    groups: t.Mapping[str, t.Sequence[str]]
    play_hosts: t.Sequence[str]  # all hosts of the play, in its order
    addresses: t.Mapping[str, str]  # known default addresses of hosts
    states: t.Mapping[str, t.Mapping[str, t.Any]]  # results of rke2_state, without those of unreachable hosts
    cluster_name: str = ""  # gpu_cluster_node_name, by which other roles find the node

    @property
    def state(self) -> t.Mapping[str, t.Any]:
        return self.states[self.name]


class Membership(t.NamedTuple):
    """A node's place in the cluster."""

    kind: str
    servers: list[str]
    join: str  # the server to join, as a URL; empty on the server that creates the cluster
    token_host: str  # the server that has the token


def node_type(settings: Data, node: NodeFacts) -> tuple[str, list[str]]:
    """Whether the node is a server or an agent."""
    names = {SERVER: settings["servers_group_name"], AGENT: settings["agents_group_name"]}
    member = [kind for kind, name in names.items() if node.name in node.groups.get(name, ())]
    if len(member) == 2:
        return "", ["the host is in both groups %s and %s: remove it from one of them" % tuple(names.values())]
    requested = settings["type"]
    if requested == "auto":
        if member:
            return member[0], []
        return "", [
            "the host is neither in the group %s (rke2_servers_group_name) nor in %s (rke2_agents_group_name): add it "
            "to one, or set rke2_type to agent" % tuple(names.values())
        ]
    if requested == SERVER and member != [SERVER]:
        return "", [
            "rke2_type is server, but the host is not in the group %s (rke2_servers_group_name): add it" % names[SERVER]
        ]
    if requested == AGENT and member == [SERVER]:
        return "", [
            "rke2_type is agent, but the host is in the group %s (rke2_servers_group_name): remove it" % names[SERVER]
        ]
    return requested, []


def name_problems(settings: Data, node: NodeFacts) -> list[str]:
    """Require that the node's name in the cluster is the inventory's, whatever the node reports."""
    name = str(settings["node_name"]).lower() or node.hostname
    if node.cluster_name and node.cluster_name != name:
        return [
            "gpu_cluster_node_name is %.70r, but RKE2 names the node %.70r: remove gpu_cluster_node_name, or set "
            "rke2_node_name to the same name" % (node.cluster_name, name)
        ]
    if settings["node_name"]:
        return []
    if node.hostname not in node.names:
        return [
            "the host name is %.70r, and not %s: set rke2_node_name to the name that the node has or should have in the "
            "cluster, such as %.70r" % (node.hostname, " or ".join(node.names), node.hostname)
        ]
    if kubernetes_values.kubernetes_value_problems("rke2_node_name", node.hostname):
        return [
            "the host name %.70r is not a valid node name: set rke2_node_name to lowercase letters, digits and hyphens"
            % node.hostname
        ]
    return []


def find_membership(kind: str, settings: Data, node: NodeFacts) -> tuple[Membership, list[str]]:
    """Find the server to join. The first server of the group creates the cluster, unless another server has one."""
    servers = list(node.groups.get(settings["servers_group_name"], ()))
    first = servers[0] if servers else ""
    with_data = [host for host in servers if node.states.get(host, {}).get("has_cluster")]
    token_host = with_data[0] if with_data else first
    joined = node.state["recorded"].get("server_url")
    if kind == SERVER and node.state["has_cluster"] and joined is not None:
        return Membership(kind, servers, str(joined), token_host), []  # RKE2 now ignores other values
    target = first
    if kind == SERVER:
        unknown = [host for host in servers if host not in node.states]
        if unknown:
            return Membership(kind, servers, "", first), [
                "%s cannot be reached, so it is unknown whether the cluster exists. Make it reachable, or remove it from "
                "the group %s" % (", ".join(unknown), settings["servers_group_name"])
            ]
        others = [host for host in with_data if host != node.name]
        if node.name == first and not others:
            return Membership(kind, servers, "", first), []
        target = others[0] if node.name == first else first
    address = settings["api_ip"] or node.addresses.get(target, "")
    if not address:
        why = (
            "the address of the server %s is unknown: it cannot be reached, or has no default route. Set rke2_api_ip"
            % target
            if target
            else "the address of the server to join is unknown: set rke2_api_ip, or add the servers to the group %s "
            "(rke2_servers_group_name)" % settings["servers_group_name"]
        )
        return Membership(kind, servers, "?", token_host), [why]
    problems = []
    if not token_host and not settings["token"]:
        problems.append(
            "the token of the cluster is unknown: set rke2_token, or add the servers to the group %s "
            "(rke2_servers_group_name)" % settings["servers_group_name"]
        )
    if kind == SERVER and not with_data and first not in node.play_hosts:
        problems.append("%s creates the cluster, but is not part of this run: run without --limit" % first)
    return Membership(kind, servers, "https://%s:%d" % (_in_url(address), _PORT), token_host), problems


def _in_url(address: str) -> str:
    try:
        return "[%s]" % address if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address  # a host name


def order_problems(membership: Membership, settings: Data, node: NodeFacts) -> list[str]:
    """Check the play order: the first server before other nodes and, in upgrades, all servers before agents."""
    if node.name not in node.play_hosts:
        return []
    earlier = node.play_hosts[: node.play_hosts.index(node.name)]
    later = [
        host for host in membership.servers if host in node.play_hosts and host not in earlier and host != node.name
    ]
    problems = []
    exists = bool(node.states.get(membership.token_host, {}).get("has_cluster"))
    if membership.join and not exists and not node.state["active"] and membership.token_host in later:
        problems.append(
            "the host joins the cluster that %s creates, but precedes it in the play. List the servers first in the "
            "inventory" % membership.token_host
        )
    installed = node.state["version"]
    if membership.kind == AGENT and later and installed and installed != settings["version"]:
        problems.append(
            "the host is upgraded before %s, but servers must be upgraded before agents. List the servers first in the "
            "inventory" % ", ".join(later)
        )
    return problems


def needs_server(membership: Membership, node: NodeFacts) -> bool:
    """Whether a server must respond now: if the node joins a server that this run does not start, or changes its server."""
    if not membership.join:
        return False
    if node.state["active"]:
        return str(node.state["recorded"].get("server_url", membership.join)) != membership.join
    return membership.token_host not in node.play_hosts
