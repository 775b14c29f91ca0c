# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The selection of packages for every system, source, branch and flavour, and all refusals."""

from __future__ import annotations

import itertools
import re
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import generations
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import plan as driver_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    SYSTEMS,
    Data,
    gpu,
    node,
    role_settings,
    table,
)

A100, H100, H200, B200, B300, GH200, V100, K80, T4 = (
    "20B5",
    "2330",
    "2335",
    "2901",
    "3182",
    "2342",
    "1DB6",
    "102D",
    "1EB8",
)


def plan(system: str, *gpus: Data, switches: int = 0, around: t.Optional[Data] = None, **settings: t.Any) -> Data:
    given = node(system, *gpus, switches=switches, **(around or {}))
    return t.cast(Data, driver_plan.plan(table(system), given, role_settings(**settings)))


def refusal(system: str, *gpus: Data, **settings: t.Any) -> str:
    with pytest.raises(Refusal) as caught:
        plan(system, *gpus, **settings)
    return str(caught.value)


# --- The tables -------------------------------------------------------------------------------------------------------

BRANCHES = [
    (system, source, branch)
    for system in SYSTEMS
    for source, rows in table(system)["sources"].items()
    for branch in [*rows["branches"], *(["620"] if source == "cuda_repository" else [])]
]
KERNEL_PARTS = ("dkms", "linux-modules-", "headless", "nvidia-open", "cuda-drivers")


@pytest.mark.parametrize("system, source, branch", BRANCHES)
def test_every_combination_of_settings_gives_valid_packages_or_a_reason(system: str, source: str, branch: str) -> None:
    given = 0
    for flavour, modules, server in itertools.product(
        ("headless", "desktop"), ("auto", "open", "proprietary", "none"), (True, False)
    ):
        settings = {"source": source, "branch": branch, "flavour": flavour, "kernel_modules": modules, "server": server}
        try:
            found = plan(system, **settings)
        except Refusal as error:
            assert "set " in str(error)
            continue
        given += 1
        assert len(found["packages"]) == len(set(found["packages"])) > 0
        assert [name for name in found["packages"] if set("{} ") & set(name) or name.endswith("-")] == []
        assert (found["modules"] == "none") == (modules == "none")
        has_module = any(part in name for name in found["packages"] for part in KERNEL_PARTS)
        assert has_module == (modules != "none")
    assert given


PACKAGES = [
    ("debian_12", {"source": "distribution", "branch": "535"}, [
        "linux-headers-6.1.0-56-amd64", "linux-headers-amd64", "nvidia-kernel-dkms", "nvidia-kernel-support", "nvidia-modprobe", "nvidia-smi",
        "libnvidia-ml1", "libcuda1", "libnvidia-cfg1", "libnvidia-ptxjitcompiler1", "firmware-nvidia-gsp",
        "nvidia-persistenced"]),
    ("debian_12", {"source": "distribution", "branch": "535", "kernel_modules": "none"},
     ["nvidia-smi", "libnvidia-ml1", "nvidia-persistenced"]),
    ("debian_13", {"source": "distribution", "branch": "550", "kernel_modules": "open", "flavour": "desktop",
                   "persistenced": False},
     ["linux-headers-6.12.117+deb13-cloud-amd64", "linux-headers-cloud-amd64", "nvidia-open-kernel-dkms",
      "nvidia-driver", "nvidia-smi", "firmware-nvidia-gsp"]),
    ("debian_12", {},
     ["linux-headers-6.1.0-56-amd64", "linux-headers-amd64", "nvidia-kernel-open-dkms", "nvidia-modprobe",
      "nvidia-driver-cuda", "nvidia-persistenced"]),
    ("debian_13", {"flavour": "desktop", "kernel_modules": "proprietary", "persistenced": False},
     ["linux-headers-6.12.117+deb13-cloud-amd64", "linux-headers-cloud-amd64", "cuda-drivers"]),
    ("ubuntu_22.04", {"source": "distribution"},
     ["linux-image-generic-5.15", "linux-modules-nvidia-580-server-open-generic-5.15",
      "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server"]),
    ("ubuntu_24.04", {"source": "distribution", "branch": "595", "server": False, "flavour": "desktop",
                      "module_build": "dkms", "kernel_modules": "proprietary"},
     ["linux-headers-6.8.0-149-generic", "linux-headers-generic-6.8", "nvidia-dkms-595", "nvidia-driver-595"]),
    ("ubuntu_20.04", {"source": "distribution", "branch": "515"},
     ["linux-headers-5.4.0-216-generic", "nvidia-headless-535-server", "nvidia-utils-535-server"]),
    ("ubuntu_22.04", {},
     ["linux-image-generic-5.15", "linux-modules-nvidia-580-server-open-generic-5.15",
      "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server"]),
    ("ubuntu_22.04", {"branch": "580", "source": "cuda_repository"},
     ["linux-headers-5.15.0-203-generic", "linux-headers-generic-5.15", "nvidia-dkms-580-open",
      "libnvidia-compute-580", "nvidia-compute-utils-580", "nvidia-utils-580", "nvidia-modprobe",
      "nvidia-persistenced"]),
    ("ubuntu_22.04", {"version": "570.133.20", "source": "cuda_repository"},
     ["linux-headers-5.15.0-203-generic", "linux-headers-generic-5.15", "nvidia-dkms-570-open",
      "libnvidia-compute-570", "nvidia-compute-utils-570", "nvidia-utils-570"]),
    ("ubuntu_22.04", {"version": "570.148.08", "source": "cuda_repository", "kernel_modules": "none"},
     ["libnvidia-compute-570", "nvidia-compute-utils-570", "nvidia-utils-570", "nvidia-persistenced"]),
    ("ubuntu_26.04", {"branch": "595", "source": "cuda_repository"},
     ["linux-headers-7.0.0-43-generic", "linux-headers-generic-7.0", "nvidia-dkms-open", "libnvidia-compute",
      "nvidia-modprobe", "nvidia-persistenced"]),
    ("el_9", {}, ["kernel-devel-5.14.0-503.el9.x86_64", "kmod-nvidia-open-dkms", "nvidia-modprobe",
                  "nvidia-driver-cuda", "nvidia-persistenced"]),
    ("el_9", {"branch": "535", "flavour": "desktop"},
     ["kernel-devel-5.14.0-503.el9.x86_64", "kmod-nvidia-latest-dkms", "nvidia-modprobe", "nvidia-driver",
      "nvidia-driver-cuda", "nvidia-persistenced"]),
    ("el_9", {"kernel_modules": "proprietary", "module_build": "prebuilt", "version": "580.126.20"},
     ["kmod-nvidia-580.126.20-5.14.0-503", "dnf-plugin-nvidia", "nvidia-modprobe", "nvidia-driver-cuda",
      "nvidia-persistenced"]),
    ("el_9", {"kernel_modules": "none"}, ["nvidia-driver-cuda-libs", "libnvidia-ml", "nvidia-persistenced"]),
    ("el_10", {"module_build": "prebuilt"},
     ["kmod-nvidia", "nvidia-modprobe", "nvidia-driver-cuda", "nvidia-persistenced"]),
]  # fmt: skip


@pytest.mark.parametrize("system, settings, packages", PACKAGES)
def test_packages(system: str, settings: Data, packages: t.List[str]) -> None:
    assert plan(system, **settings)["packages"] == packages


@pytest.mark.parametrize(
    "system, kernel, headers",
    [
        ("el_9", "5.14.0-570.12.1.el9_6.x86_64", "kernel-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("el_9", "5.14.0-570.el9.x86_64+rt", "kernel-rt-devel-5.14.0-570.el9.x86_64"),
        ("el_9", "5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("el_9", "5.14.0-162.6.1.rt21.168.el9_1.x86_64", "kernel-rt-devel-5.14.0-162.6.1.rt21.168.el9_1.x86_64"),
        ("debian_12", "6.1.0-56-rt-amd64", "linux-headers-6.1.0-56-rt-amd64"),
        ("debian_13", "6.12.117+deb13-amd64", "linux-headers-6.12.117+deb13-amd64"),
        ("ubuntu_24.04", "6.8.0-1031-azure", "linux-headers-6.8.0-1031-azure"),
    ],
)
def test_headers_match_the_running_kernel(system: str, kernel: str, headers: str) -> None:
    found = plan(system, around={"kernel": kernel}, module_build="dkms")
    assert (found["headers"], found["packages"][0]) == (headers, headers)
    assert plan(system, around={"kernel": kernel}, kernel_modules="none")["headers"] == ""


def test_prebuilt_modules_need_no_headers() -> None:
    assert plan("ubuntu_24.04", source="distribution")["headers"] == ""


@pytest.mark.parametrize("name", [None, "", "a b; rm", "--purge", "nvidia*", "nvidia-{branch}"])
def test_invalid_package_names_are_refused(name: t.Optional[str]) -> None:
    with pytest.raises(Refusal, match="nvidia_driver_packages contains"):
        plan("debian_12", packages=["nvidia-smi", name])


@pytest.mark.parametrize("branch", ["５８０", "58²", "-580", ""])
def test_a_branch_is_a_number(branch: str) -> None:
    with pytest.raises(Refusal, match="nvidia_driver_branch is"):
        plan("debian_12", branch=branch)


def test_nvidia_driver_packages_replaces_the_table() -> None:
    assert plan("debian_12", packages=["mine", "nvidia-smi"])["packages"] == ["mine", "nvidia-smi"]


def test_extra_packages_are_added() -> None:
    found = plan("debian_12", extra_packages=["nvtop", "nvidia-driver-cuda"])["packages"]
    assert found == [*plan("debian_12")["packages"], "nvtop"]
    assert plan("debian_12", packages=["mine"], extra_packages=["nvtop"])["packages"] == ["mine", "nvtop"]
    assert "nvidia_driver_extra_packages contains '*'" in refusal("debian_12", extra_packages=["*"])


@pytest.mark.parametrize(
    "kernel, series",
    [
        ("5.15.0-203-generic", "generic-5.15"),
        ("6.8.0-149-generic", "generic-6.8"),  # not generic-hwe-22.04, which follows a later series
        ("5.15.0-1126-azure", "azure-5.15"),  # not azure, which is 6.8
        ("5.15.0-1125-azure-fde", "azure-fde-5.15"),
        ("5.15.0-199-lowlatency", "lowlatency-5.15"),
    ],
)
def test_ubuntus_modules_follow_the_series_of_the_kernel(kernel: str, series: str) -> None:
    found = plan("ubuntu_22.04", around={"kernel": kernel})
    modules = "linux-modules-nvidia-580-server-open-"
    assert found["kernel_packages"] == ["linux-image-" + series, modules + series]
    assert found["packages"][:2] == found["kernel_packages"]
    assert found["optional_packages"] == [modules + kernel]


def test_only_signed_modules_of_ubuntu_follow_a_kernel() -> None:
    for found in (plan("debian_12"), plan("ubuntu_22.04", module_build="dkms"), plan("el_10", module_build="prebuilt")):
        assert (found["optional_packages"], found["kernel_packages"]) == ([], [])


@pytest.mark.parametrize(
    "kernel, settings, headers",
    [
        ("6.8.0-1060-aws", {"branch": "595"}, "linux-headers-aws-6.8"),  # signed for 580 only
        ("6.14.0-37-generic", {"branch": "615"}, "linux-headers-generic-6.14"),
        ("6.8.0-149-generic", {"source": "cuda_repository"}, "linux-headers-generic-6.8"),
    ],
)
def test_kernels_without_signed_modules_get_headers_of_their_series(kernel: str, settings: Data, headers: str) -> None:
    found = plan("ubuntu_24.04", around={"kernel": kernel}, **settings)
    assert (found["build"], found["packages"][:2]) == ("dkms", ["linux-headers-" + kernel, headers])
    signed = [notice for notice in found["notices"] if "no signed modules" in notice]
    assert len(signed) == (0 if "source" in settings else 1)


def test_kernels_without_prebuilt_modules_get_dkms() -> None:
    found = plan("ubuntu_22.04", around={"kernel": "6.18.44-own"}, source="distribution")
    assert (found["build"], found["packages"][0]) == ("dkms", "nvidia-headless-580-server-open")
    assert found["notices"] == [
        "Canonical offers no signed modules of driver 580-server-open for kernel 6.18.44-own: DKMS builds them on the node.",
        "Kernel 6.18.44-own is not one of Ubuntu 22.04's. DKMS needs its headers, which must be installed already.",
    ]
    assert "nvidia_driver_module_build" in refusal(
        "ubuntu_22.04", source="distribution", around={"kernel": "6.18.44-own"}, module_build="prebuilt"
    )


@pytest.mark.parametrize(
    "system, settings",
    [
        ("debian_12", {}),
        ("el_9", {"kernel_modules": "open"}),
        ("el_10", {"kernel_modules": "proprietary"}),
        ("el_10", {"around": {"architecture": "aarch64"}}),
        ("ubuntu_24.04", {"source": "cuda_repository"}),
    ],
)
def test_prebuilt_modules_that_do_not_exist_are_refused(system: str, settings: Data) -> None:
    assert "set nvidia_driver_module_build to dkms" in refusal(system, module_build="prebuilt", **settings)


def test_signed_modules_of_enterprise_linux_use_another_repository() -> None:
    (notice,) = plan("el_10", module_build="prebuilt")["notices"]
    assert "rhel-10-for-x86_64-extensions-rpms" in notice
    assert plan("el_10")["build"] == plan("el_9")["build"] == "dkms"


@pytest.mark.parametrize(
    "system, modules, stream",
    [
        ("el_9", "open", "nvidia-driver:580-open"),
        ("el_9", "proprietary", "nvidia-driver:580-dkms"),
        ("el_9", "none", ""),
        ("el_10", "open", "nvidia-driver:580-open"),
        ("debian_12", "open", ""),
    ],
)
def test_module_streams(system: str, modules: str, stream: str) -> None:
    found = plan(system, kernel_modules=modules)
    assert found["module_stream"] == stream
    assert found["module_stream_optional"] == (system == "el_10")  # its repository does not always have streams
    found = plan("el_9", kernel_modules="proprietary", module_build="prebuilt", version="580.126.20")
    assert found["module_stream"] == "nvidia-driver:580"


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


# --- Sources ----------------------------------------------------------------------------------------------------------


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


# --- Architectures ----------------------------------------------------------------------------------------------------

ARM: Data = {"architecture": "aarch64"}


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


@pytest.mark.parametrize(
    "kernel, packages",
    [
        ("7.0.0-43-generic", ["linux-image-generic-7.0", "linux-modules-nvidia-580-server-open-generic-7.0"]),
        ("7.0.0-1005-nvidia", ["linux-headers-7.0.0-1005-nvidia", "nvidia-headless-580-server-open"]),
        ("7.0.0-43-generic-64k", ["linux-headers-7.0.0-43-generic-64k", "nvidia-headless-580-server-open"]),
    ],
)
def test_signed_modules_of_another_architecture(kernel: str, packages: t.List[str]) -> None:
    assert plan("ubuntu_26.04", around={**ARM, "kernel": kernel})["packages"][:2] == packages


def test_headers_of_later_kernels_are_installed_only_if_they_are_known() -> None:
    kernel = "6.8.0-1031-nvidia-64k"
    found = plan("ubuntu_24.04", around={**ARM, "kernel": kernel})["packages"]
    assert [name for name in found if name.startswith("linux-")] == ["linux-headers-" + kernel]


def test_precompiled_modules_are_those_of_a_kernel_and_a_driver_version() -> None:
    settings = {"kernel_modules": "proprietary", "module_build": "prebuilt", "version": "580.126.20"}
    found = plan("el_9", around={"kernel": "5.14.0-611.24.1.el9_7.x86_64"}, **settings)
    assert found["packages"][0] == "kmod-nvidia-580.126.20-5.14.0-611.24.1"
    assert "dnf-plugin-nvidia" in found["independent"]  # its version is not the driver's
    assert "set nvidia_driver_version" in refusal("el_9", **{**settings, "version": ""})
    for around in (ARM, {"kernel": "5.14.0-611.el9.x86_64+rt"}, {"kernel": "6.18.44-own"}):
        assert "no prebuilt proprietary modules" in refusal("el_9", around=around, **settings)


# --- Branches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system, requested, installs",
    [("ubuntu_20.04", "515", "535"), ("ubuntu_22.04", "515", "580"), ("ubuntu_24.04", "515", "580"),
     ("ubuntu_26.04", "535", "580")],
)  # fmt: skip
def test_a_transitional_branch_names_the_installed_branch(system: str, requested: str, installs: str) -> None:
    found = plan(system, source="distribution", branch=requested)
    assert found["branch"] == installs
    assert found["notices"] == [
        "Branch %s is transitional on %s: its packages install branch %s."
        % (requested, table(system)["title"], installs)
    ]


def test_an_ordinary_branch_has_no_notice() -> None:
    assert plan("ubuntu_22.04", source="distribution")["notices"] == []
    assert plan("ubuntu_22.04", branch="515", source="cuda_repository")["branch"] == "515"


@pytest.mark.parametrize(
    "system, settings, words",
    [
        ("debian_12", {"source": "distribution", "branch": "580"}, ["no branch 580, but 535", "cuda_repository"]),
        ("debian_13", {"source": "distribution", "branch": "515"}, ["no branch 515, but 550"]),
        ("ubuntu_20.04", {"branch": "580"}, ["no branch 580, but 535, 550, 565, 570"]),
        ("ubuntu_26.04", {"source": "distribution", "branch": "515"}, ["no branch 515, but 580, 595, 615"]),
        ("ubuntu_26.04", {"source": "distribution", "branch": "610"}, ["no server series", "nvidia_driver_server"]),
        ("ubuntu_24.04", {"branch": "550", "version": "550.90.07"}, ["is not of branch 580", "to cuda_repository"]),
        ("ubuntu_24.04", {"branch": "580", "version": "595.58.03"}, ["set nvidia_driver_branch to auto"]),
        ("ubuntu_26.04", {"branch": "610"}, ["to false, or nvidia_driver_branch to another"]),
        ("ubuntu_20.04", {"source": "distribution", "branch": "550", "server": False}, ["only the server series"]),
        ("el_9", {"source": "distribution"}, ["no known driver of its own; set nvidia_driver_source to cuda_repository"]),
        ("debian_12", {"branch": "470"}, ["'470'", "from 515 on"]),
        ("debian_12", {"branch": "latest"}, ["'latest'"]),
        ("debian_12", {"version": "580.126.20-1"}, ["'580.126.20-1'", "without the package's revision"]),
        ("debian_12", {"version": "570.133.20", "branch": "580"}, ["570.133.20 is not of branch 580"]),
        ("ubuntu_24.04", {"source": "distribution", "branch": "615", "server": False, "kernel_modules": "proprietary"},
         ["only the open kernel module"]),
        ("debian_12", {"branch": "620", "kernel_modules": "proprietary"}, ["only the open kernel module", "auto"]),
    ],
)  # fmt: skip
def test_unavailable_combinations_are_refused(system: str, settings: Data, words: t.List[str]) -> None:
    message = refusal(system, **settings)
    assert [word for word in words if word not in message] == []


# --- GPUs and kernel modules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, branch, modules",
    [
        (A100, "580", "open"),
        (A100, "535", "proprietary"),
        (A100, "560", "open"),
        (H100, "550", "proprietary"),
        (T4, "580", "open"),
        (V100, "580", "proprietary"),
        (V100, "535", "proprietary"),
        (B200, "580", "open"),
        (B300, "580", "open"),
        (GH200, "535", "open"),
        ("F000", "620", "open"),
    ],
)
def test_modules_are_chosen_by_the_gpu(device: str, branch: str, modules: str) -> None:
    assert plan("ubuntu_22.04", gpu(device), branch=branch, source="cuda_repository")["modules"] == modules


@pytest.mark.parametrize(
    "gpus, settings, words",
    [
        ([A100, V100, B200], {}, ["no kernel module supports all", "(Blackwell) needs the open", "Volta) needs the propr"]),
        ([B200], {"kernel_modules": "proprietary"}, ["only the open kernel module", "2901"]),
        ([V100], {"kernel_modules": "open"}, ["only the proprietary"]),
        ([A100, GH200], {"kernel_modules": "proprietary"}, ["only the open kernel module"]),
        ([K80], {}, ["Kepler", "remove it"]),
        ([V100], {"branch": "595"}, ["up to 580 only"]),
        ([B200], {"branch": "550"}, ["570 or later"]),
        ([B300], {"branch": "570"}, ["580 or later"]),
    ],
)  # fmt: skip
def test_drivers_that_do_not_support_the_gpus_are_refused(
    gpus: t.List[str], settings: Data, words: t.List[str]
) -> None:
    message = refusal("debian_12", *(gpu(device, slot) for slot, device in enumerate(gpus)), **settings)
    assert [word for word in words if word not in message] == []


def test_kernel_modules_none_installs_no_kernel_module() -> None:
    assert plan("debian_12", gpu(A100), gpu(V100, 1), gpu(B200, 2), kernel_modules="none")["modules"] == "none"


def test_every_board_has_modules_for_its_generation() -> None:
    for name in boards.names():
        for device in boards.data(name)["pci_device_ids"]:
            generation = generations.generation(device)
            assert generation in generations.GENERATIONS
            assert "open" in generation.modules, name


def test_a_node_without_gpu_is_refused_unless_boards_are_set() -> None:
    empty = {"gpus": []}
    assert "nvidia_driver_boards" in refusal("debian_12", around=empty)
    found = plan("debian_12", around=empty, boards=["B300"], branch="580")
    assert (found["modules"], found["minimum_version"]) == ("open", "580.82.07")
    assert plan("debian_12", around=empty, boards=["NVIDIA A10", "V100"])["modules"] == "proprietary"
    assert "A100-80GB" in refusal("debian_12", around=empty, boards=["A1000"])


# --- The lowest driver of a board -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, branch, version, fits",
    [
        (H200, "550", "", True),
        (H200, "535", "", False),
        (H200, "550", "550.54.15", False),
        (H200, "550", "550.90", False),
        (H200, "550", "550.90.07", True),
        (B200, "570", "570.124.06", False),
        (B200, "570", "570.133.20", True),
        (A100, "515", "", True),
        ("20B7", "515", "515.43.04", True),
        ("2329", "535", "535.104.05", False),
        (H100, "515", "", False),
        ("2BB5", "575", "575.51.02", False),
        (T4, "515", "", True),
    ],
)
def test_the_lowest_driver_of_each_board(device: str, branch: str, version: str, fits: bool) -> None:
    if fits:
        found = plan("ubuntu_22.04", gpu(device), source="cuda_repository", branch=branch, version=version)
        assert found["branch"] == branch
    else:
        settings = {"source": "cuda_repository", "branch": branch, "version": version}
        assert "or later" in refusal("ubuntu_22.04", gpu(device), **settings)


def test_the_highest_minimum_of_the_boards_applies() -> None:
    message = refusal("ubuntu_22.04", gpu(A100), gpu(H200, 1), branch="535", source="cuda_repository")
    assert "H200-141GB needs driver 550.90.07 or later, and 535 would be installed" in message


# --- Fabric manager ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system, settings, packages",
    [
        ("debian_12", {"branch": "580"}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("debian_12", {"branch": "570"}, ["nvidia-fabricmanager-570", "libnvidia-nscq-570"]),
        ("debian_13", {}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("ubuntu_22.04", {}, ["nvidia-fabricmanager-580", "libnvidia-nscq-580"]),
        ("ubuntu_22.04", {"branch": "595"}, ["nvidia-fabricmanager-595", "libnvidia-nscq-595"]),
        ("ubuntu_24.04", {"branch": "570", "source": "cuda_repository"},
         ["nvidia-fabricmanager-570", "libnvidia-nscq-570"]),
        ("ubuntu_24.04", {"source": "cuda_repository"}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("el_9", {}, ["nvidia-fabricmanager", "libnvidia-nscq"]),
        ("el_9", {"branch": "575"}, ["nvidia-fabric-manager", "libnvidia-nscq-575"]),
    ],
)  # fmt: skip
def test_the_fabric_manager_is_installed_with_nvswitches(system: str, settings: Data, packages: t.List[str]) -> None:
    found = plan(system, switches=6, **settings)
    assert (found["fabric_manager"], found["packages"][-2:]) == (True, packages)
    without = plan(system, switches=0, **settings)
    assert not without["fabric_manager"]
    assert without["packages"] == found["packages"][:-2]
    assert plan(system, switches=6, fabric_manager="absent", **settings) == without
    assert plan(system, switches=0, fabric_manager="present", **settings) == found


@pytest.mark.parametrize("system", ["debian_12", "debian_13", "el_9"])
def test_nvlink_5_needs_its_subnet_manager(system: str) -> None:
    found = plan(system, gpu(B200), fabric_manager="present")
    assert found["packages"][-3:] == ["nvidia-fabricmanager", "libnvidia-nscq", "nvlsm"]
    assert found["load_modules"] == ["ib_umad"]
    assert plan(system, gpu(H100), switches=4)["load_modules"] == []
    assert "nvlsm" not in plan(system, gpu(B200))["packages"]


def test_ubuntu_has_no_subnet_manager() -> None:
    message = refusal("ubuntu_24.04", gpu(B300), fabric_manager="present")
    assert "B300 needs nvlsm" in message
    assert "set nvidia_driver_source to cuda_repository" in message
    assert "nvlsm" in plan("ubuntu_24.04", gpu(B300), fabric_manager="present", source="cuda_repository")["packages"]


@pytest.mark.parametrize(
    "system, settings, package",
    [
        ("ubuntu_24.04", {}, "nvidia-imex-580"),
        ("ubuntu_24.04", {"source": "cuda_repository"}, "nvidia-imex"),
        ("ubuntu_24.04", {"source": "cuda_repository", "branch": "570"}, "nvidia-imex-570"),
        ("el_9", {}, "nvidia-imex"),
    ],
)
def test_imex_is_installed_on_grace_blackwell(system: str, settings: Data, package: str) -> None:
    found = plan(system, gpu("2941"), **settings)
    assert (found["fabric_manager"], found["packages"][-1]) == (False, package)
    assert any("nodes_config.cfg" in notice for notice in found["notices"])
    assert found["module_options"] == {"NVreg_CreateImexChannel0": "1", "NVreg_CoherentGPUMemoryMode": "driver"}
    assert plan(system, gpu("2941"), kernel_modules="none", **settings)["module_options"] == {}
    other = plan(system, gpu(GH200), **settings)
    assert "imex" not in str(other["packages"])
    assert other["module_options"] == {}


def test_persistence_mode_is_enabled_if_ubuntus_unit_disables_it() -> None:
    assert plan("ubuntu_24.04")["persistence_override"]
    assert not plan("ubuntu_24.04", persistenced=False)["persistence_override"]
    assert not plan("ubuntu_24.04", source="cuda_repository")["persistence_override"]
    assert not plan("debian_12")["persistence_override"]


def test_fabric_managers_that_do_not_fit() -> None:
    assert "nvidia_driver_server to true" in refusal("ubuntu_22.04", switches=4, source="distribution", server=False)
    assert "cuda_repository" in refusal("debian_12", switches=4, source="distribution", branch="535")


def remedies(text: str, system: str) -> t.Iterator[Data]:
    """The settings that a refusal proposes. Those without a value stand for all values that the message can mean."""
    text = re.sub("nvidia_driver_([a-z_]+)(.*)set it to", r"\1\2set nvidia_driver_\1 to", text)
    for name, value in re.findall("nvidia_driver_([a-z_]+) to ([a-z_]+)", text):
        yield {name: {"true": True, "false": False}.get(value, value)}
    branches = {name for source in table(system)["sources"].values() for name in source["branches"]}
    if re.search("nvidia_driver_branch(?! is)|another branch", text):
        yield from ({"branch": name} for name in sorted(branches))
    if "set nvidia_driver_version" in text:
        yield from ({"version": name + ".126.20"} for name in sorted(branches))
    if "nvidia_driver_packages" in text:
        yield {"packages": ["nvidia-driver"]}


def leads_to_a_plan(system: str, settings: Data) -> bool:
    todo, seen = [settings], list[Data]()
    while todo:
        tried = todo.pop(0)
        if tried in seen:
            continue
        seen.append(tried)
        try:
            plan(system, gpu(H100), **tried)
        except Refusal as error:
            todo.extend({**tried, **proposed} for proposed in remedies(str(error), system))
        else:
            return True
    return False


DEVIATIONS: list[Data] = [
    *({"source": source} for source in ("cuda_repository", "distribution")),
    *({"branch": branch} for branch in ("515", "550", "610", "620")),
    *({"kernel_modules": modules} for modules in ("open", "proprietary", "none")),
    *({"module_build": build} for build in ("prebuilt", "dkms")),
    {"flavour": "desktop"},
    {"server": False},
    {"version": "550.90.07"},
    {"switches": 4},
    {"around": {"architecture": "aarch64"}},
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_whoever_follows_the_messages_gets_a_plan(system: str) -> None:
    stuck = []
    for some in itertools.combinations(DEVIATIONS, 3):
        settings = {"branch": "auto", **some[0], **some[1], **some[2]}
        if not leads_to_a_plan(system, settings):
            stuck.append((settings, refusal(system, gpu(H100), **settings)))
    assert stuck == []


def test_hidden_nvswitches_are_a_notice() -> None:
    (notice,) = plan("debian_12", gpu(B200))["notices"]
    assert "B200-180GB" in notice
    assert "nvidia_driver_fabric_manager to present" in notice


def test_a_pci_bus_that_cannot_be_read_is_not_empty() -> None:
    unread = {"gpus": None, "nvswitches": None}
    assert "cannot be read" in refusal("debian_12", around=unread)
    assert "nvidia_driver_boards" in refusal("debian_12", dict(gpu(), pci_device_id=None))
    named = {"around": unread, "boards": ["A100-80GB"]}
    assert "nvidia_driver_fabric_manager to present or absent" in refusal("debian_12", **named)
    assert plan("debian_12", fabric_manager="present", **named)["fabric_manager"]
    assert plan("debian_12", dict(gpu(), pci_device_id=None), boards=["A100-80GB"])["minimum_board"]


# --- Secure Boot ------------------------------------------------------------------------------------------------------


def test_secure_boot_with_dkms_is_a_notice() -> None:
    secure = {"secure_boot": "enabled"}
    assert any("mokutil" in notice for notice in plan("debian_12", around=secure)["notices"])
    assert plan("ubuntu_22.04", around=secure, source="distribution")["notices"] == []
    assert plan("debian_12", around=secure, kernel_modules="none")["notices"] == []
