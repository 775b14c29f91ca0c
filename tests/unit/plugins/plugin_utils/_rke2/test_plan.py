# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the role rke2, from variables, groups and the state of the nodes."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import plan as rke2_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2.plan import NodeFacts, Outcome

ROLE = Path(__file__).resolve().parents[5] / "roles" / "rke2"
DEFAULTS = {
    name.removeprefix("rke2_"): value
    for name, value in yaml.safe_load((ROLE / "defaults" / "main.yml").read_text()).items()
}
VERSION = DEFAULTS["version"]
GROUPS = {"masters": ["s1", "s2", "s3"], "workers": ["a1", "a2"]}
HOSTS = [*GROUPS["masters"], *GROUPS["workers"]]
ADDRESSES = {host: "192.0.2.%d" % number for number, host in enumerate(HOSTS, 1)}
Data = t.Dict[str, t.Any]
ROCKY: Data = {"distribution": "Rocky 9.6", "enterprise_linux": "9"}


def state(**other: t.Any) -> Data:
    """A node without Kubernetes."""
    return {
        "recorded": {}, "version": None, "active": "", "has_cluster": False, "foreign": [], "problems": [],
        "archive_problems": [], **other,
    }  # fmt: skip


def installed(kind: str, version: str = VERSION, **record: t.Any) -> Data:
    recorded = {
        "type": kind, "data_path": DEFAULTS["data_path"], "version": version, "images": [],
        "server_url": "https://192.0.2.1:9345", **record,
    }  # fmt: skip
    return state(recorded=recorded, version=version, active=kind, has_cluster=kind == "server")


def make(name: str, states: t.Optional[t.Mapping[str, Data]] = None, **other: t.Any) -> Outcome:
    node: Data = {
        "name": name, "names": [name], "hostname": name, "architecture": "x86_64", "distribution": "Debian 12.11", "enterprise_linux": "", "groups": GROUPS,
        "play_hosts": HOSTS, "addresses": ADDRESSES,
        "states": {host: state() for host in (GROUPS["masters"] if name in GROUPS["masters"] else [name])},
    }  # fmt: skip
    node["states"].update(states or {})
    node.update({key: other.pop(key) for key in list(other) if key in node})
    return rke2_plan.plan_node({**DEFAULTS, **other}, NodeFacts(**node))


def planned(name: str, *positional: t.Any, **other: t.Any) -> Data:
    found = make(name, *positional, **other)
    assert found.problems == []
    return found.plan


def refused(name: str, *positional: t.Any, **other: t.Any) -> str:
    found = make(name, *positional, **other)
    assert found.plan == {}
    (problem,) = found.problems
    return problem


@pytest.mark.parametrize(
    ("profile", "user", "cis"),
    [({}, False, False), ({"profile": "cis"}, True, True), ({"profile": "etcd"}, True, False)],
)
def test_the_needs_of_a_profile(profile: Data, user: bool, cis: bool) -> None:
    """With etcd, RKE2 requires the user, but not the kernel parameters (rancher/rke2 issue 8127)."""
    plan = planned("s1", config=profile)
    assert (plan["etcd_user"], plan["cis"], plan["record"]["cis"]) == (user, cis, cis)


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


def test_a_second_run_installs_nothing() -> None:
    states = {host: installed("server") for host in GROUPS["masters"]}
    states["s1"]["recorded"]["server_url"] = ""
    assert not planned("s1", states)["installs"]
    assert planned("s1", states)["creates_cluster"]
    assert planned("s2", states)["server_url"] == "https://192.0.2.1:9345"
    agent = planned("a1", {"a1": installed("agent")})
    assert (agent["installs"], agent["throttle"]) == (False, 1)  # a restart of running pods is one at a time


@pytest.mark.parametrize("change", [{"version": "v1.35.8+rke2r1"}, {"airgap_mode": True}])
def test_changes_that_install_again(change: Data) -> None:
    assert planned("a1", {"a1": installed("agent")}, **change)["installs"]


def test_a_server_must_answer_a_node_that_changes_servers() -> None:
    states = {"a1": installed("agent")}
    assert not planned("a1", states)["needs_server"]
    assert planned("a1", states, api_ip="192.0.2.100")["needs_server"]


def test_an_interrupted_installation_is_repeated() -> None:
    found = installed("agent")
    found["version"] = None  # recorded, but not installed
    assert planned("a1", {"a1": found})["installs"]
    del found["recorded"]["version"]
    assert planned("a1", {"a1": dict(found, version=VERSION)})["installs"]


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


def test_an_even_number_of_servers() -> None:
    groups = {"masters": ["s1", "s2"]}
    assert "the group masters has 2 servers: etcd needs an odd number" in refused("s1", groups=groups)
    assert planned("s1", groups=groups, config={"datastore-endpoint": "x"})["secret_keys"] == ["datastore-endpoint"]


def test_other_kubernetes_is_refused() -> None:
    found = refused("a1", {"a1": state(foreign=["K3s is installed (/usr/local/bin/k3s)"])})
    assert found.startswith("K3s is installed (/usr/local/bin/k3s). The role installs RKE2 only on a node without")
    assert "remove rke2 from gpu_node_roles" in found
    assert planned("a1", {"a1": dict(installed("agent"), foreign=["RKE2 is installed (/usr/local/bin/rke2)"])})


def test_what_cannot_change_after_the_installation() -> None:
    for method, recorded in (("rpm", {}), ("rpm", {"method": "tar"}), ("tar", {"method": "rpm"})):
        found = refused("a1", {"a1": installed("agent", **recorded)}, install_method=method, **ROCKY)
        assert "rke2_install_method is %s, but the role installed RKE2 with" % method in found
        assert "Undo the role first (undo.yml --tags rke2)" in found
    assert "rke2_data_path is /data, but the role installed RKE2 with /var" in refused(
        "a1", {"a1": installed("agent")}, data_path="/data"
    )
    assert "rke2_type is agent, but the role installed RKE2 with server" in refused(
        "a1", {"a1": dict(installed("server"), has_cluster=False)}
    )


def test_versions() -> None:
    assert "must not skip a minor version" in refused("a1", {"a1": installed("agent", "v1.33.1+rke2r1")})
    plan = planned("a1", {"a1": installed("agent", "v1.34.1+rke2r1")})
    assert plan["installs"] and plan["record"]["version"] == VERSION


def test_the_order_of_the_play() -> None:
    assert "joins the cluster that s1 creates, but precedes it in the play" in refused("a1", play_hosts=["a1", "s1"])
    states = {"a1": installed("agent", "v1.34.1+rke2r1")}
    assert "the host is upgraded before s2, but servers must" in refused("a1", states, play_hosts=["s1", "a1", "s2"])
    assert planned("a1", {"a1": installed("agent")}, play_hosts=["s1", "a1", "s2"])
    assert "s1 creates the cluster, but is not part of this run" in refused("s2", play_hosts=["s2", "a1"])


def test_the_configuration() -> None:
    settings: Data = {
        "api_ip": "192.0.2.100", "additional_sans": ["k8s.example.com"], "node_labels": ["gpu=a100"],
        "server_node_taints": ["a=b:NoExecute"], "agent_node_taints": ["nvidia.com/gpu:NoSchedule"], "node_name": "n",
        "data_path": "/data", "config": {"cni": "cilium", "agent-token": "secret", "kubelet-arg": ["max-pods=200"]},
    }  # fmt: skip
    assert planned("s1", **settings)["config"] == {
        "data-dir": "/data", "node-name": "n", "node-label": ["gpu=a100"], "node-taint": ["a=b:NoExecute"],
        "tls-san": ["192.0.2.100", "k8s.example.com"], "cni": "cilium", "kubelet-arg": ["max-pods=200"],
    }  # fmt: skip
    assert planned("a1", **settings)["config"] == {
        "data-dir": "/data", "node-name": "n", "server": "https://192.0.2.100:9345", "node-label": ["gpu=a100"],
        "node-taint": ["nvidia.com/gpu:NoSchedule"], "kubelet-arg": ["max-pods=200"],
    }  # fmt: skip
    assert planned("s1", **settings)["secret_keys"] == ["agent-token"]
    assert planned("a1", **settings)["labels"] == ["gpu=a100"]
    assert planned("a1", config={"node-taint+": ["a:NoExecute"]})["taints"] == ["a:NoExecute"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"config": {"kublet-arg": []}}, "did you mean kubelet-arg?"),
        ({"config": {"node-taint": ["x"]}}, "rke2_config, key node-taint has 'x'"),
        ({"config": {"node-taint+": ["x"]}}, "rke2_config, key node-taint has 'x'"),
        ({"config": {"node-label": "x"}}, "rke2_config, key node-label has 'x'"),
        ({"agent_node_taints": ["x"]}, "rke2_agent_node_taints has 'x'"),
        ({"node_labels": ["a=b"], "config": {"node-label": ["c=d"]}}, "rke2_config sets node-label, and so does"),
        (
            {"environment_options": ["A=b", "http://user:secret@proxy"]},
            "rke2_environment_options, entry 2: give NAME=value",
        ),
        ({"api_ip": "https://192.0.2.1:9345"}, "rke2_api_ip is https://192.0.2.1:9345: give an address or a name"),
        ({"artifact_url": "ftp://mirror"}, "rke2_artifact_url is ftp://mirror, so the download cannot be verified"),
        ({"artifact_url": "http://mirror"}, "rke2_artifact_url is http://mirror, so the download cannot be verified"),
    ],
)
def test_settings_that_are_refused(settings: Data, words: str) -> None:
    assert words in refused("a1", **settings)


def test_a_mirror_without_tls_needs_a_checksum() -> None:
    url = {"artifact_url": "http://mirror/rke2/"}
    assert planned("a1", artifact_checksum="sha256:" + "0" * 64, **url)["url"] == "http://mirror/rke2/v1.35.7%2Brke2r1"
    assert planned("a1", airgap_mode=True, airgap_implementation="copy", **url)["source"] == "copy"


def test_the_kubeconfig_needs_a_directory() -> None:
    assert "set rke2_download_kubeconf_path" in refused("s1", download_kubeconf=True)
    assert planned("s1", config={"write-kubeconfig": "/root/k"})["kubeconfig"] == "/root/k"


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["rke2-images.linux-amd64.tar.zst"]),
        ({"config": {"cni": ["multus", "cilium"]}}, ["rke2-images-core", "rke2-images-multus", "rke2-images-cilium"]),
        ({"config": {"cni": "none"}}, ["rke2-images-core"]),
        ({"config": {"ingress-controller": "traefik"}}, ["rke2-images", "rke2-images-traefik"]),
        ({"airgap_images": ["my.tar.gz"]}, ["my.tar.gz"]),
    ],
)
def test_archives_of_images(settings: Data, names: t.Sequence[str]) -> None:
    plan = planned("a1", airgap_mode=True, **settings)
    expected = [name if ".tar" in name else name + ".linux-amd64.tar.zst" for name in names]
    assert plan["files"] == ["/var/lib/gpufleet/rke2/" + name for name in ["rke2.linux-amd64.tar.gz", *expected]]
    assert plan["record"]["images"] == sorted(expected)
    assert plan["directories"] == ["/var/lib/gpufleet/rke2", "/var/lib/rancher/rke2/agent/images"]


# --- Packages ---------------------------------------------------------------------------------------------------------

RPM: Data = {"install_method": "rpm", **ROCKY}


def test_packages_and_their_repositories() -> None:
    plan = planned("a1", architecture="aarch64", version="v1.36.0-rc2+rke2r1", channel="latest", **RPM)
    assert (plan["packages"], plan["package_version"]) == (["rke2-common", "rke2-agent"], "1.36.0~rc2~rke2r1")
    assert plan["repositories"] == [
        {"name": "gpufleet-rke2", "url": "https://rpm.rancher.io/rke2/latest/1.36/centos/9/aarch64"},
        {"name": "gpufleet-rke2-common", "url": "https://rpm.rancher.io/rke2/latest/common/centos/9/noarch"},
    ]
    mirror = planned("s1", repository_url="http://mirror/rke2/", **RPM)
    assert mirror["repositories"][0]["url"] == "http://mirror/rke2/stable/1.35/centos/9/x86_64"
    assert mirror["packages"] == ["rke2-common", "rke2-server"]


def test_packages_replace_the_archive_but_not_the_images() -> None:
    plan = planned("a1", artifact_url="http://mirror", **RPM)  # nothing is downloaded from there
    assert (plan["files"], plan["archive"], plan["source"], plan["directories"]) == ([], "", "", [])
    plan = planned("a1", airgap_mode=True, airgap_implementation="copy", **RPM)
    assert plan["files"] == plan["images"] == ["/var/lib/gpufleet/rke2/rke2-images.linux-amd64.tar.zst"]
    assert (plan["archive"], plan["source"], len(plan["directories"])) == ("", "copy", 2)
    assert "the download cannot be verified" in refused("a1", airgap_mode=True, artifact_url="http://mirror", **RPM)


def test_installed_packages() -> None:
    found = installed("agent", "v1.34.1+rke2r1", method="rpm", prefix="/usr")
    found["recorded"]["version"] = "1.34.1~rke2r1"  # by node_packages
    plan = planned("a1", {"a1": found}, **RPM)
    assert plan["installs"] and "version" not in plan["record"]
    assert (plan["record"]["method"], plan["record"]["prefix"]) == ("rpm", "/usr")
    assert not planned("a1", {"a1": dict(found, version=VERSION)}, **RPM)["installs"]
    assert planned("a1", {"a1": dict(found, version=VERSION)}, airgap_mode=True, **RPM)["installs"]


def test_a_failed_installation_does_not_fix_the_method() -> None:
    found = installed("a1", method="rpm")
    assert planned("a1", {"a1": dict(found, version=None, recorded={"type": "agent", "method": "rpm"})})


def test_distributions_without_packages() -> None:
    found = refused("a1", install_method="rpm")
    assert "are for Enterprise Linux 8, 9, 10, and the host has Debian 12.11. Set rke2_install_method to tar" in found
    assert "the host has Rocky 9.6" in refused("a1", **{**RPM, "enterprise_linux": "7"})


def test_a_read_only_prefix_matters_only_to_the_archive() -> None:
    states = {"a1": state(archive_problems=["/usr/local is read-only"])}
    assert refused("a1", states) == "/usr/local is read-only"
    assert planned("a1", states, **RPM)["record"]["prefix"] == "/usr"


def test_the_testing_channel_has_another_key() -> None:
    assert "set rke2_repository_url to https://rpm-testing.rancher.io/rke2" in refused("a1", channel="testing", **RPM)
    assert planned("a1", channel="testing", repository_url="https://rpm-testing.rancher.io/rke2", **RPM)


def test_variables_that_the_packages_override() -> None:
    found = refused("a1", environment_options=["RKE2_SELINUX=false"], **RPM)
    assert "sets RKE2_SELINUX, which the package overrides in /etc/sysconfig. Remove it, and set selinux in" in found
    assert planned("a1", environment_options=["RKE2_SELINUX=false"])
    assert planned("a1", environment_options=["HTTPS_PROXY=http://proxy"], **RPM)


def test_architectures() -> None:
    assert planned("a1", architecture="aarch64")["checksums"].endswith("/sha256sum-arm64.txt")
    assert "RKE2 does not support the architecture riscv64, only aarch64, x86_64" in refused(
        "a1", architecture="riscv64"
    )


def test_without_network_plugin_a_node_is_never_ready() -> None:
    assert not planned("s1", config={"cni": "none"})["ready"]
    assert not planned("a1", config={"cni": ["none"]})["ready"]
