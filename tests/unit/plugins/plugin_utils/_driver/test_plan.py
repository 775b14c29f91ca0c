# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages of every system, source, branch and flavour, and what follows from the refusals."""

from __future__ import annotations

import itertools
import re
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    A100,
    B200,
    H100,
    H200,
    K80,
    SYSTEMS,
    T4,
    Data,
    gpu,
    plan,
    refusal,
    table,
)

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


@pytest.mark.parametrize("name", [None, "", "a b; rm", "--purge", "nvidia*", "nvidia-{branch}"])
def test_invalid_package_names_are_refused(name: t.Optional[str]) -> None:
    with pytest.raises(Refusal, match="nvidia_driver_packages contains"):
        plan("debian_12", packages=["nvidia-smi", name])


def test_nvidia_driver_packages_replaces_the_table() -> None:
    assert plan("debian_12", packages=["mine", "nvidia-smi"])["packages"] == ["mine", "nvidia-smi"]


@pytest.mark.parametrize(
    "device, around, settings, problems",
    [
        (K80, {"switches": 4}, {"source": "distribution", "branch": "580", "packages": ["*"], "extra_packages": ["-y"]},
         ["Kepler", "has no fabric manager", "no branch 580", "_packages contains '*'", "extra_packages contains '-y'"]),
        (B200, {}, {"branch": "550", "kernel_modules": "proprietary", "module_build": "prebuilt"},
         ["needs branch 570", "only the open kernel module"]),
        (H200, {}, {"branch": "470", "boards": ["A1000"]}, ["unknown board 'A1000'", "from 515 on"]),
        (H200, {}, {"branch": "610", "version": "595.58.03"}, ["no server series", "595.58.03 is not of branch 615"]),
    ],
)  # fmt: skip
def test_independent_problems_are_reported_together(
    device: str, around: Data, settings: Data, problems: t.List[str]
) -> None:
    system = "ubuntu_26.04" if settings["branch"] == "610" else "debian_12"
    with pytest.raises(Refusal) as caught:
        plan(system, gpu(device), **around, **settings)
    assert len(caught.value.args) == len(problems)
    assert [words for words, text in zip(problems, caught.value.args) if words not in text] == []


def test_extra_packages_are_added() -> None:
    found = plan("debian_12", extra_packages=["nvtop", "nvidia-driver-cuda"])["packages"]
    assert found == [*plan("debian_12")["packages"], "nvtop"]
    assert plan("debian_12", packages=["mine"], extra_packages=["nvtop"])["packages"] == ["mine", "nvtop"]
    assert "nvidia_driver_extra_packages contains '*'" in refusal("debian_12", extra_packages=["*"])


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


def test_persistence_mode_is_enabled_if_ubuntus_unit_disables_it() -> None:
    assert plan("ubuntu_24.04")["persistence_override"]
    assert not plan("ubuntu_24.04", persistenced=False)["persistence_override"]
    assert not plan("ubuntu_24.04", source="cuda_repository")["persistence_override"]
    assert not plan("debian_12")["persistence_override"]


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


def test_a_pci_bus_that_cannot_be_read_is_not_empty() -> None:
    unread = {"gpus": None, "nvswitches": None}
    assert "cannot be read" in refusal("debian_12", around=unread)
    assert "nvidia_driver_boards" in refusal("debian_12", dict(gpu(), pci_device_id=None))
    named = {"around": unread, "boards": ["A100-80GB"]}
    assert "nvidia_driver_fabric_manager to present or absent" in refusal("debian_12", **named)
    assert plan("debian_12", fabric_manager="present", **named)["fabric_manager"]
    assert plan("debian_12", dict(gpu(), pci_device_id=None), boards=["A100-80GB"])["minimum_board"]


def test_secure_boot_with_dkms_is_a_notice() -> None:
    secure = {"secure_boot": "enabled"}
    assert any("mokutil" in notice for notice in plan("debian_12", around=secure)["notices"])
    assert plan("ubuntu_22.04", around=secure, source="distribution")["notices"] == []
    assert plan("debian_12", around=secure, kernel_modules="none")["notices"] == []
