# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Package sources: the distribution, NVIDIA's repository and mirrors, on each system and architecture."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    ARM,
    Data,
    plan,
    refusal,
)


@pytest.mark.parametrize(
    "system, url, key",
    [
        ("debian_13", "debian13/x86_64", "8793F200.pub"),
        ("ubuntu_22.04", "ubuntu2204/x86_64", "3bf863cc.pub"),
        ("ubuntu_26.04", "ubuntu2604/x86_64", "60DF8A40.pub"),
        ("el_9", "rhel9/x86_64", "D42D0685.pub"),
    ],
)
def test_the_vendors_repository(system: str, url: str, key: str) -> None:
    repository = plan(system, source="cuda_repository")["repository"]
    assert repository["url"].endswith("/compute/cuda/repos/%s/" % url)
    assert repository["key"] == repository["url"] + key
    assert repository["fingerprint"].endswith(key.split(".")[0].upper())
    assert len(repository["fingerprint"]) == 40
    arm = plan(system, around={"architecture": "aarch64"}, source="cuda_repository")["repository"]
    assert arm["url"].endswith("/sbsa/")
    assert "ppc64le" in refusal(system, around={"architecture": "ppc64le"}, source="cuda_repository")


@pytest.mark.parametrize(
    "system, file, keyring",
    [
        (
            "debian_13",
            "sources.list.d/gpufleet-nvidia-driver.sources",
            "/etc/apt/keyrings/gpufleet-nvidia-driver.asc",
        ),
        ("el_9", "yum.repos.d/gpufleet-nvidia-driver.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia-driver"),
    ],
)
def test_a_mirror(system: str, file: str, keyring: str) -> None:
    repository = plan(system, repository_url="http://mirror.example/cuda//", repository_key_fingerprint="AB")[
        "repository"
    ]
    assert (repository["url"], repository["fingerprint"]) == ("http://mirror.example/cuda/", "AB")
    assert repository["key"].startswith("http://mirror.example/cuda/")
    assert repository["file"].endswith(file)
    assert repository["keyring"] == keyring


@pytest.mark.parametrize(
    "settings, signed",
    [
        ({}, "both"),
        ({"repository_url": "http://mirror.example"}, "packages"),
        ({"repository_url": "http://mirror.example", "repository_signed": "both"}, "both"),
        ({"repository_signed": "packages"}, "packages"),
    ],
)
def test_the_metadata_of_a_mirror_may_be_unsigned(settings: Data, signed: str) -> None:
    assert plan("el_9", **settings)["repository"]["signed"] == signed


def test_a_binary_key_of_a_mirror() -> None:
    repository = plan("debian_12", repository_url="http://mirror.example", repository_key="files/mirror.gpg")[
        "repository"
    ]
    assert (repository["key"], repository["keyring"].split("/")[-1]) == (
        "files/mirror.gpg",
        "gpufleet-nvidia-driver.gpg",
    )


def test_the_key_of_enterprise_linux_10_is_identified_by_its_checksum() -> None:
    repository = plan("el_10")["repository"]
    assert repository["key"].endswith("/rhel10/x86_64/CDF6BA43.pub")
    assert repository["fingerprint"] == ""
    assert repository["checksum_without_version"].startswith("sha256:afbea87d")


@pytest.mark.parametrize(
    "system, settings, source, branch",
    [
        ("ubuntu_20.04", {}, "distribution", "570"),
        ("ubuntu_24.04", {}, "distribution", "580"),
        ("ubuntu_26.04", {}, "distribution", "580"),
        ("ubuntu_26.04", {"source": "cuda_repository"}, "cuda_repository", "595"),
        ("ubuntu_26.04", {"repository_url": "http://mirror.example"}, "cuda_repository", "595"),
        ("debian_12", {}, "cuda_repository", "580"),
        ("debian_12", {"source": "distribution"}, "distribution", "535"),
        ("debian_13", {}, "cuda_repository", "595"),
        ("debian_13", {"version": "590.48.01"}, "cuda_repository", "590"),
        ("debian_13", {"source": "distribution"}, "distribution", "550"),
        ("el_9", {}, "cuda_repository", "580"),
        ("el_10", {}, "cuda_repository", "580"),
    ],
)
def test_each_system_has_its_own_source_and_branch(system: str, settings: Data, source: str, branch: str) -> None:
    found = plan(system, **settings)
    assert (found["source"], found["branch"]) == (source, branch)
    assert (found["repository"] == {}) == (source == "distribution")


def test_branches_of_the_vendors_repository() -> None:
    assert "no branch 580, but 590, 595" in refusal("debian_13", branch="580")
    assert "set nvidia_driver_source to distribution" not in refusal("debian_13", branch="580")
    assert "nvidia_driver_source to distribution" in refusal("ubuntu_26.04", branch="580", source="cuda_repository")
    (notice,) = plan("debian_12", branch="575")["notices"]
    assert "Branch 575 is not among the known branches" in notice
    mirror = {"repository_url": "http://mirror.example", "branch": "580"}
    assert plan("debian_13", **mirror)["notices"] == []
    assert refusal("ubuntu_20.04", source="cuda_repository") == (
        "Ubuntu 20.04 has no known driver in NVIDIA's CUDA repository; set nvidia_driver_source to distribution"
    )


@pytest.mark.parametrize(
    "system, settings, source, branch",
    [
        ("debian_12", {}, "cuda_repository", "595"),
        ("debian_12", {"source": "distribution"}, "distribution", "535"),
        ("ubuntu_22.04", {}, "cuda_repository", "580"),
        ("ubuntu_24.04", {}, "cuda_repository", "580"),
        ("ubuntu_24.04", {"source": "distribution", "packages": ["mine"]}, "distribution", "580"),
        ("ubuntu_26.04", {}, "distribution", "580"),
        ("el_9", {}, "cuda_repository", "580"),
    ],
)
def test_sources_and_branches_of_other_architectures(system: str, settings: Data, source: str, branch: str) -> None:
    found = plan(system, around=ARM, **settings)
    assert (found["source"], found["branch"], found["notices"]) == (source, branch, [])


def test_packages_that_are_not_known_for_an_architecture_are_refused() -> None:
    assert refusal("ubuntu_24.04", around=ARM, source="distribution") == (
        "Ubuntu 24.04 on aarch64 has no known driver of its own; set nvidia_driver_source to cuda_repository, or list its "
        "packages in nvidia_driver_packages"
    )
    assert refusal("ubuntu_20.04", around=ARM).endswith(
        "Ubuntu 20.04 on aarch64 has no known driver of its own; list its packages in nvidia_driver_packages"
    )
    assert "no branch 615, but 580, 595" in refusal("ubuntu_26.04", around=ARM, branch="615")
    assert "Debian 12 on aarch64 has no branch 580, but 590" in refusal("debian_12", around=ARM, branch="580")
    (notice,) = plan("ubuntu_24.04", around=ARM, branch="615")["notices"]
    assert "Branch 615 is not among the known branches" in notice
    message = refusal("el_9", around={"architecture": "ppc64le"})
    assert message.endswith("; set nvidia_driver_repository_url to a mirror that has one")
    mirror = plan("el_9", around={"architecture": "ppc64le"}, repository_url="http://mirror.example/cuda")
    assert mirror["repository"]["url"] == "http://mirror.example/cuda/"
