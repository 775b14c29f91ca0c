# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The type and the name of a node, and the server that it joins."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import plan as rke2_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2.membership import NodeFacts
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._rke2.rke2_support import (
    ADDRESSES,
    DEFAULTS,
    GROUPS,
    HOSTS,
    installed,
    make,
    planned,
    refused,
    state,
)


def test_the_name_of_the_node_comes_from_the_inventory() -> None:
    names = ["gpu-1.example.com", "gpu-1"]
    assert planned("a1")["node_name"] == "a1"
    assert planned("a1", names=names, hostname="gpu-1")["node_name"] == "gpu-1"
    assert planned("a1", names=["gpu-1"], hostname="localhost", node_name="gpu-1")["node_name"] == "gpu-1"
    assert refused("a1", names=names, hostname="--all") == (
        "the host name is '--all', and not gpu-1.example.com or gpu-1: set rke2_node_name to the name that the node has or "
        "should have in the cluster, such as '--all'"
    )
    assert "'gpu_1' is not a valid node name" in refused("a1", names=["gpu_1"], hostname="gpu_1")


def test_a_new_cluster() -> None:
    first, second, agent = planned("s1"), planned("s2"), planned("a1")
    assert (first["creates_cluster"], first["server_url"], first["token_host"]) == (True, "", "")
    for plan in (second, agent):
        assert (plan["creates_cluster"], plan["server_url"]) == (False, "https://192.0.2.1:9345")
        assert (plan["token_host"], plan["needs_server"]) == ("s1", False)  # this run starts it
        assert plan["config"] == {"server": "https://192.0.2.1:9345"}
    assert (first["service"], agent["service"]) == ("rke2-server", "rke2-agent")
    assert (second["throttle"], agent["throttle"]) == (1, 0)
    assert first["installs"] and not first["record"]["images"] and first["ready"]


def test_a_server_must_answer_a_node_that_changes_servers() -> None:
    states = {"a1": installed("agent")}
    assert not planned("a1", states)["needs_server"]
    assert planned("a1", states, api_ip="192.0.2.100")["needs_server"]


def test_a_first_server_that_is_rebuilt_joins_the_others() -> None:
    """It would otherwise create a second cluster."""
    plan = planned("s1", {"s2": installed("server"), "s3": installed("server")})
    assert (plan["creates_cluster"], plan["server_url"], plan["token_host"]) == (False, "https://192.0.2.2:9345", "s2")
    again = planned("s1", {"s1": installed("server", server_url=plan["server_url"]), "s2": installed("server")})
    assert again["server_url"] == plan["server_url"]  # nothing changes in the next run


def test_a_server_whose_state_is_unknown() -> None:
    node = {host: state() for host in ("s1", "s3")}
    found = rke2_plan.plan_node(
        DEFAULTS, NodeFacts("s1", ["s1"], "s1", "x86_64", "Debian 12.11", "", GROUPS, HOSTS, ADDRESSES, node)
    )
    assert "s2 cannot be reached, so it is unknown whether the cluster exists" in found.problems[0]


def test_an_agent_of_a_cluster_whose_servers_are_not_in_the_inventory() -> None:
    groups = {"workers": ["a1"]}
    found = make("a1", groups=groups, addresses={})
    assert "the address of the server to join is unknown" in found.problems[0]
    assert "the token of the cluster is unknown" in refused("a1", groups=groups, api_ip="rke2.example.com")
    plan = planned("a1", groups=groups, api_ip="rke2.example.com", token="secret", play_hosts=["a1"])
    assert (plan["server_url"], plan["token_host"], plan["needs_server"]) == ("https://rke2.example.com:9345", "", True)


def test_a_server_without_a_default_route() -> None:
    found = make("a1", addresses={"s1": ""})
    assert found.problems[0] == (
        "the address of the server s1 is unknown: it cannot be reached, or has no default route. Set rke2_api_ip"
    )


def test_addresses_of_ipv6_are_in_brackets() -> None:
    assert planned("a1", api_ip="2001:db8::1")["server_url"] == "https://[2001:db8::1]:9345"


def test_the_type_and_the_groups() -> None:
    assert "neither in the group masters (rke2_servers_group_name) nor in workers" in refused("x", {"x": state()})
    assert "in both groups" in refused("s1", groups={"masters": ["s1"], "workers": ["s1"]})
    assert "not in the group masters" in refused("a1", type="server")
    assert "but the host is in the group masters" in refused("s1", type="agent")
    assert planned("x", {"x": state()}, type="agent", play_hosts=[*HOSTS, "x"])["type"] == "agent"
    found = make("x", hostname="y", architecture="riscv64", install_method="rpm")
    assert [text.partition(" is ")[0] for text in found.problems] == [
        "the host", "the host name", "rke2_install_method", "RKE2 does not support the architecture riscv64, only aarch64, x86_64",
    ]  # fmt: skip


def test_the_order_of_the_play() -> None:
    assert "joins the cluster that s1 creates, but precedes it in the play" in refused("a1", play_hosts=["a1", "s1"])
    states = {"a1": installed("agent", "v1.34.1+rke2r1")}
    assert "the host is upgraded before s2, but servers must" in refused("a1", states, play_hosts=["s1", "a1", "s2"])
    assert planned("a1", {"a1": installed("agent")}, play_hosts=["s1", "a1", "s2"])
    assert "s1 creates the cluster, but is not part of this run" in refused("s2", play_hosts=["s2", "a1"])
