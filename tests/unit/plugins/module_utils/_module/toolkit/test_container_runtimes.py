# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The selection of container runtimes to configure."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import plan as toolkit_plan
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit.container_runtimes import (
    RuntimeFacts,
    choose_runtimes,
)


def node(*programs, os_family="Debian", **more):
    distribution = {"Debian": "Debian 12", "RedHat": "Rocky 9"}.get(os_family, os_family)
    return RuntimeFacts(programs=programs, distribution=distribution, os_family=os_family, **more)


DOCKER = ("containerd", "docker", "dockerd")


@pytest.mark.parametrize(
    ("found", "runtimes"),
    [
        (node("containerd"), ["containerd"]),
        (node("crio"), ["crio"]),
        (node("crio", "containerd"), ["containerd", "crio"]),
        (node(*DOCKER), ["containerd", "docker"]),
        (node(*DOCKER, cri_disabled=True), ["docker"]),  # Docker's own packages
        (node("containerd", "docker"), ["containerd"]),  # the client alone is not a runtime
        (node("containerd", os_family="RedHat"), ["containerd"]),
        (node(kubernetes=True), []),
        (node(*DOCKER, kubernetes=True), []),
    ],
)
def test_auto_selects_what_is_installed(found, runtimes):
    choice = choose_runtimes(["auto"], found)
    assert (choice.runtimes, choice.install_containerd, list(choice.problems)) == (runtimes, False, [])


def test_kubernetes_is_on_the_node_or_in_a_role_of_the_run(monkeypatch, tmp_path):
    monkeypatch.setattr(toolkit_plan, "KUBERNETES", {"rke2": [str(tmp_path / "rke2")]})
    assert not toolkit_plan.has_kubernetes(["nvidia_mig"])
    assert toolkit_plan.has_kubernetes(["nvidia_mig", "rke2"])
    (tmp_path / "rke2").touch()
    assert toolkit_plan.has_kubernetes([])


def test_auto_installs_containerd_if_no_runtime_is_installed():
    choice = choose_runtimes(["auto"], node())
    assert (choice.runtimes, choice.install_containerd, list(choice.problems)) == (["containerd"], True, [])


def test_enterprise_linux_has_no_containerd_to_install():
    choice = choose_runtimes(["auto"], node(os_family="RedHat"))
    assert not choice.install_containerd
    (problem,) = choice.problems
    assert "Rocky 9 has no package of containerd. Install containerd" in problem


def test_auto_does_not_configure_a_containerd_that_kubernetes_cannot_use():
    (problem,) = choose_runtimes(["auto"], node("containerd", cri_disabled=True)).problems
    assert "Remove cri from disabled_plugins" in problem


def test_auto_cannot_be_combined():
    (problem,) = choose_runtimes(["auto", "docker"], node(*DOCKER)).problems
    assert "combines auto with other values" in problem


@pytest.mark.parametrize("requested", [[], ["containerd"], ["docker", "containerd"]])
def test_named_runtimes_are_configured_as_requested(requested):
    for found in (node(*DOCKER), node(*DOCKER, kubernetes=True), node(*DOCKER, cri_disabled=True)):
        assert choose_runtimes(requested, found) == (requested, False, [])


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        (["containerd"], "containerd is not installed, but nvidia_container_toolkit_runtimes is [containerd]"),
        (["docker"], "dockerd and docker are not installed"),
        (["crio", "docker"], "crio and dockerd and docker are not installed, but"),
    ],
)
def test_a_named_runtime_must_be_installed(requested, words):
    choice = choose_runtimes(requested, node())
    (problem,) = choice.problems
    assert problem.startswith(words)
    assert not choice.install_containerd


@pytest.mark.parametrize("version", ["1.18.1", "1.20.1", "1.20.1-1", "2.0.0"])
def test_exact_versions(version):
    assert toolkit_plan.version_problems(version) == []


@pytest.mark.parametrize(
    "version", ["", "latest", "1.20", "1.20.x", "1.18.0", "1.9.9", "0.99.99", "1.20.1-1~rc.1", "\uff11.20.1"]
)
def test_other_versions(version):
    (problem,) = toolkit_plan.version_problems(version)
    assert problem.startswith('nvidia_container_toolkit_version is "%s". Set an exact version' % version)


def test_only_root_can_install():
    assert toolkit_plan.user_problems(0) == []
    assert toolkit_plan.user_problems(1000) == ["Ansible does not run as root. Run as root (become: true)"]


def test_supported_systems():
    assert toolkit_plan.os_problems("Debian", "Ubuntu 24.04") == []
    assert toolkit_plan.os_problems("RedHat", "Rocky 9") == []
    assert toolkit_plan.os_problems("Suse", "SLES 15") == [
        "SLES 15 is not supported. The role supports Debian, Ubuntu and Enterprise Linux"
    ]
