# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin rke2_plan: plan and problems from variables, facts and results of other tasks."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.action.rke2_plan import ActionModule

FACTS: t.Dict[str, t.Any] = {
    "nodename": "gpu-1", "architecture": "x86_64", "effective_user_id": 0, "default_ipv4": {"address": "192.0.2.1"}, "os_family": "Debian",
    "distribution": "Debian", "distribution_version": "12.11", "distribution_major_version": "12",
}  # fmt: skip
STATE = {
    "recorded": {}, "version": None, "active": "", "has_cluster": False, "foreign": [], "problems": [],
    "archive_problems": [],
}  # fmt: skip


def run(
    host: str = "gpu-1",
    facts: t.Optional[t.Dict[str, t.Any]] = None,
    given_arguments: t.Optional[t.Dict[str, t.Any]] = None,
    **variables: t.Any,
) -> t.Dict[str, t.Any]:
    templar = SimpleNamespace(template=lambda value: value)
    arguments = {"states": {"server-1": {"state": STATE}, "gpu-1": {"state": STATE}, "lost": {"unreachable": True}}}
    task = SimpleNamespace(
        args=arguments if given_arguments is None else given_arguments,
        async_val=0,
        action="rke2_plan",
        _get_parent_attribute=lambda *_: None,
    )
    action = ActionModule(task, SimpleNamespace(_shell=SimpleNamespace(tmpdir=None)), None, None, templar, None)
    action._task.check_mode = False
    given = {
        "inventory_hostname": host,
        "ansible_facts": facts or FACTS,
        "groups": {"masters": ["server-1"], "workers": ["gpu-1"]},
        "ansible_play_hosts_all": ["server-1", "gpu-1"],
        "hostvars": {"server-1": {"ansible_facts": FACTS}, "gpu-1": {}},
        "rke2_version": "v1.35.7+rke2r1",
        "rke2_servers_group_name": "masters",
        "rke2_agents_group_name": "workers",
    }
    result: t.Dict[str, t.Any] = action.run(task_vars={**given, **variables})
    return result


def test_an_agent() -> None:
    result = run()
    assert (result["changed"], result["problems"]) == (False, [])
    assert (result["plan"]["type"], result["plan"]["server_url"]) == ("agent", "https://192.0.2.1:9345")
    assert result["warnings"] == []
    assert result["differences"] == ["RKE2 v1.35.7+rke2r1 is not installed. Run site.yml --tags rke2"]
    version = {"version": "v1.35.7+rke2r1"}
    own = {"recorded": {**result["plan"]["record"], "type": "agent"}, **version, "active": "agent"}
    assert run(given_arguments={"states": {"gpu-1": {"state": {**STATE, **own}}}})["differences"] == []


def test_facts_that_replace_variables() -> None:
    """A node must not choose its name in the cluster, with which a server deletes it."""
    forged = {**FACTS, "rke2_node_name": "server-1"}
    result = run(facts=forged, rke2_node_name="server-1")
    assert result["plan"] == {} and "facts with the names of variables" in result["problems"][0]
    result = run(facts=forged, rke2_node_name="server-1", given_arguments={})
    assert result["failed"] and result["msg"].startswith("the node returns facts")


def test_facts_with_control_characters() -> None:
    assert "m\x9b2J" not in run(facts={**FACTS, "architecture": "m\x9b2J"})["problems"][0]


def test_the_first_server() -> None:
    assert run("server-1", {**FACTS, "nodename": "server-1"})["plan"]["creates_cluster"]


@pytest.mark.parametrize(
    ("host", "variables", "names"),
    [
        ("gpu-1", {}, ["gpu-1"]),
        ("GPU-1.example.com", {}, ["gpu-1.example.com", "gpu-1"]),
        ("10.0.0.5", {}, ["10.0.0.5"]),
        ("gpu-1", {"rke2_node_name": "one"}, ["one"]),
        ("gpu-1", {"gpu_node_hostname": "one.example.com"}, ["one.example.com", "one"]),
        # The first label is ambiguous.
        ("gpu-1.east", {"groups": {"all": ["gpu-1.east", "gpu-1.west"]}}, ["gpu-1.east"]),
    ],
)
def test_the_names_of_a_node(host: str, variables: t.Dict[str, t.Any], names: t.List[str]) -> None:
    found = run(host, {"nodename": "control-plane-1"}, {}, **variables)
    assert found == {"changed": False, "names": names}


def test_a_host_that_reports_the_name_of_another_node() -> None:
    (problem,) = run(facts={**FACTS, "nodename": "Server-1"})["problems"]
    assert problem.startswith("the host name is 'server-1', and not gpu-1: set rke2_node_name")
    assert run(facts={**FACTS, "nodename": "localhost"}, gpu_node_hostname="gpu-1")["problems"] == []


def test_another_name_for_the_roles_of_the_cluster() -> None:
    """They would look for a node that RKE2 does not register, after everything is installed."""
    assert run(gpu_cluster_node_name="GPU-1")["problems"] == []
    (problem,) = run(gpu_cluster_node_name="gpu-2")["problems"]
    assert problem == (
        "gpu_cluster_node_name is 'gpu-2', but RKE2 names the node 'gpu-1': remove gpu_cluster_node_name, or set "
        "rke2_node_name to the same name"
    )
    assert run(gpu_cluster_node_name="gpu-2", rke2_node_name="gpu-2")["problems"] == []
    assert len(run(gpu_cluster_node_name="gpu-1", rke2_node_name="gpu-2")["problems"]) == 1


def test_ipv6_is_used_where_there_is_no_ipv4() -> None:
    facts = {"default_ipv4": {}, "default_ipv6": {"address": "2001:db8::1"}}
    assert run(hostvars={"server-1": {"ansible_facts": facts}})["plan"]["server_url"] == "https://[2001:db8::1]:9345"


def test_the_token_is_not_in_the_plan() -> None:
    assert "swordfish" not in str(run(rke2_token="swordfish", rke2_config={"agent-token": "swordfish"}))


def test_values_of_wrong_types() -> None:
    (problem,) = run(rke2_start_timeout="soon")["problems"]
    assert "argument 'rke2_start_timeout' is of type str and we were unable to convert to int" in problem


def test_methods_of_installation() -> None:
    (problem,) = run(rke2_install_method="deb")["problems"]
    assert problem == "value of rke2_install_method must be one of: tar, rpm, got: deb"
    (problem,) = run(rke2_install_method="rpm")["problems"]
    assert "the host has Debian 12.11" in problem
    rocky = {**FACTS, "os_family": "RedHat", "distribution": "Rocky", "distribution_major_version": "9"}
    plan = run(facts=rocky, rke2_install_method="rpm")["plan"]
    assert plan["repositories"][0]["url"] == "https://rpm.rancher.io/rke2/stable/1.35/centos/9/x86_64"


def test_a_node_that_cannot_be_reached() -> None:
    assert run("lost")["problems"] == ["the host cannot be reached, so its state is unknown"]


def test_without_root() -> None:
    (problem,) = run(facts={**FACTS, "effective_user_id": 1000})["problems"]
    assert problem == "Ansible does not run as root. Run as root (become: true)"


def test_keys_of_a_newer_version_are_a_warning() -> None:
    result = run(rke2_version="v1.37.0+rke2r1", rke2_config={"quantum-plane": True})
    assert "quantum-plane" in result["warnings"][0]
