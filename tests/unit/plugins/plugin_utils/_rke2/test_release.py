# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives, images and packages of a release, and their sources."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._rke2.rke2_support import (
    RPM,
    Data,
    planned,
    refused,
    state,
)


def test_a_mirror_without_tls_needs_a_checksum() -> None:
    for url in ("ftp://mirror", "http://mirror"):
        found = refused("a1", artifact_url=url)
        assert "rke2_artifact_url is %s, so the download cannot be verified" % url in found
    mirror = {"artifact_url": "http://mirror/rke2/"}
    assert (
        planned("a1", artifact_checksum="sha256:" + "0" * 64, **mirror)["url"] == "http://mirror/rke2/v1.35.7%2Brke2r1"
    )
    assert planned("a1", airgap_mode=True, airgap_implementation="copy", **mirror)["source"] == "copy"


def test_the_kubeconfig_needs_a_directory() -> None:
    assert "set rke2_download_kubeconf_path" in refused("s1", download_kubeconf=True)
    assert planned("s1", config={"write-kubeconfig": "/root/k"})["kubeconfig"] == "/root/k"


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["rke2-images.linux-amd64.tar.zst"]),
        ({"config": {"cni": ["multus", "cilium"]}}, ["rke2-images-core", "rke2-images-multus", "rke2-images-cilium"]),
        ({"config": {"cni": "multus, cilium"}}, ["rke2-images-core", "rke2-images-multus", "rke2-images-cilium"]),
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
