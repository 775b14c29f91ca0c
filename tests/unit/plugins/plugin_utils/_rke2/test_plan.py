# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the role rke2, from variables and the state of the node."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._rke2.rke2_support import (
    GROUPS,
    ROCKY,
    RPM,
    VERSION,
    Data,
    installed,
    planned,
    refused,
    state,
)


@pytest.mark.parametrize(
    ("profile", "user", "cis"),
    [({}, False, False), ({"profile": "cis"}, True, True), ({"profile": "etcd"}, True, False)],
)
def test_the_needs_of_a_profile(profile: Data, user: bool, cis: bool) -> None:
    """With etcd, RKE2 requires the user, but not the kernel parameters (rancher/rke2 issue 8127)."""
    plan = planned("s1", config=profile)
    assert (plan["etcd_user"], plan["cis"], plan["record"]["cis"]) == (user, cis, cis)


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


def test_an_interrupted_installation_is_repeated() -> None:
    found = installed("agent")
    found["version"] = None  # recorded, but not installed
    assert planned("a1", {"a1": found})["installs"]
    del found["recorded"]["version"]
    assert planned("a1", {"a1": dict(found, version=VERSION)})["installs"]


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


def test_without_network_plugin_a_node_is_never_ready() -> None:
    assert not planned("s1", config={"cni": "none"})["ready"]
    assert not planned("a1", config={"cni": ["none"]})["ready"]
