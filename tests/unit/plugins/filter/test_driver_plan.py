# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter driver_plan: every system, source, branch and flavour, and everything that it refuses."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.node.plugins.filter.driver_plan import FilterModule
from ansible_collections.gpufleet.node.plugins.plugin_utils import _boards, _driver_generations

from ansible_collections.gpufleet.node.tests.unit.plugins.filter.driver import SYSTEMS, Data, gpu, node, table, wanted

driver_plan = FilterModule().filters()["driver_plan"]

A100, H100, H200, B200, B300, GH200, V100, K80, T4 = "20B5", "2330", "2335", "2901", "3182", "2342", "1DB6", "102D", "1EB8"


def plan(system: str, *gpus: Data, switches: int = 0, around: t.Optional[Data] = None, **wishes: t.Any) -> Data:
    given = node(system, *gpus, switches=switches, **(around or {}))
    return t.cast(Data, driver_plan(table(system), given, wanted(**wishes)))


def refusal(system: str, *gpus: Data, **wishes: t.Any) -> str:
    with pytest.raises(AnsibleFilterError) as caught:
        plan(system, *gpus, **wishes)
    return str(caught.value)


# --- The tables -------------------------------------------------------------------------------------------------------

BRANCHES = [
    (system, source, branch)
    for system in SYSTEMS
    for source, rows in table(system)["sources"].items()
    for branch in (rows["branches"] or ["515", "535", "580", "595", "620"])
]
KERNEL_PARTS = ("dkms", "linux-modules-", "headless", "nvidia-open", "cuda-drivers")


@pytest.mark.parametrize("system, source, branch", BRANCHES)
def test_every_wish_gives_whole_names_or_a_reason(system: str, source: str, branch: str) -> None:
    given = 0
    for flavour, modules, server in itertools.product(
        ("headless", "desktop"), ("auto", "open", "proprietary", "none"), (True, False)
    ):
        wishes = {"source": source, "branch": branch, "flavour": flavour, "kernel_modules": modules, "server": server}
        try:
            found = plan(system, **wishes)
        except AnsibleFilterError as error:
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
     ["linux-headers-6.1.0-56-amd64", "linux-headers-amd64", "nvidia-kernel-open-dkms", "nvidia-modprobe", "nvidia-driver-cuda",
      "nvidia-persistenced"]),
    ("debian_13", {"flavour": "desktop", "kernel_modules": "proprietary", "persistenced": False},
     ["linux-headers-6.12.117+deb13-cloud-amd64", "linux-headers-cloud-amd64", "cuda-drivers"]),
    ("ubuntu_22.04", {"source": "distribution"},
     ["linux-modules-nvidia-580-server-open-generic", "nvidia-headless-no-dkms-580-server-open",
      "nvidia-utils-580-server"]),
    ("ubuntu_24.04", {"source": "distribution", "branch": "595", "server": False, "flavour": "desktop",
                      "module_build": "dkms", "kernel_modules": "proprietary"},
     ["linux-headers-6.8.0-149-generic", "nvidia-dkms-595", "nvidia-driver-595"]),
    ("ubuntu_20.04", {"source": "distribution", "branch": "515"},
     ["linux-modules-nvidia-535-server-generic", "nvidia-headless-no-dkms-535-server", "nvidia-utils-535-server"]),
    ("ubuntu_22.04", {"branch": "580"},
     ["linux-headers-5.15.0-203-generic", "nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-compute-utils-580",
      "nvidia-utils-580"]),
    ("ubuntu_26.04", {"branch": "595"},
     ["linux-headers-7.0.0-43-generic", "nvidia-dkms-open", "libnvidia-compute", "nvidia-compute-utils",
      "nvidia-utils"]),
    ("el_9", {}, ["kernel-devel-5.14.0-503.el9.x86_64", "kmod-nvidia-open-dkms", "nvidia-modprobe",
                  "nvidia-driver-cuda", "nvidia-persistenced"]),
    ("el_8", {"branch": "535", "flavour": "desktop"},
     ["kernel-devel-4.18.0-553.el8_10.x86_64", "kmod-nvidia-latest-dkms", "nvidia-modprobe", "nvidia-driver",
      "nvidia-driver-cuda", "nvidia-persistenced"]),
]  # fmt: skip


@pytest.mark.parametrize("system, wishes, packages", PACKAGES)
def test_packages(system: str, wishes: Data, packages: t.List[str]) -> None:
    assert plan(system, **wishes)["packages"] == packages


@pytest.mark.parametrize(
    "system, kernel, headers",
    [
        ("el_9", "5.14.0-570.12.1.el9_6.x86_64", "kernel-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("el_9", "5.14.0-570.el9.x86_64+rt", "kernel-rt-devel-5.14.0-570.el9.x86_64"),
        ("el_9", "5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        (
            "el_8",
            "4.18.0-553.rt7.342.el8_10.x86_64",
            "kernel-rt-devel-4.18.0-553.rt7.342.el8_10.x86_64",
        ),
        ("debian_12", "6.1.0-56-rt-amd64", "linux-headers-6.1.0-56-rt-amd64"),
        ("debian_13", "6.12.117+deb13-amd64", "linux-headers-6.12.117+deb13-amd64"),
        ("ubuntu_24.04", "6.8.0-1031-azure", "linux-headers-6.8.0-1031-azure"),
    ],
)
def test_headers_are_those_of_the_kernel_that_runs(system: str, kernel: str, headers: str) -> None:
    found = plan(system, around={"kernel": kernel, "host": "gpu-1"})
    assert (found["headers"], found["packages"][0]) == (headers, headers)
    assert (found["host"], found["kernel"]) == ("gpu-1", kernel)
    assert plan(system, around={"kernel": kernel}, kernel_modules="none")["headers"] is None


def test_prebuilt_modules_need_no_headers() -> None:
    assert plan("ubuntu_24.04", source="distribution")["headers"] is None


@pytest.mark.parametrize("name", [None, "", "a b; rm", "--purge", "nvidia*", "nvidia-{branch}"])
def test_what_cannot_be_a_package_is_refused(name: t.Optional[str]) -> None:
    with pytest.raises(AnsibleFilterError, match="nvidia_driver_packages names"):
        plan("debian_12", packages=["nvidia-smi", name])


@pytest.mark.parametrize("branch", ["５８０", "58²", "-580", ""])
def test_a_branch_is_a_number(branch: str) -> None:
    with pytest.raises(AnsibleFilterError, match="nvidia_driver_branch is"):
        plan("debian_12", branch=branch)


def test_packages_of_one_s_own_replace_the_table_s() -> None:
    assert plan("debian_12", packages=["mine", "nvidia-smi"])["packages"] == ["mine", "nvidia-smi"]


@pytest.mark.parametrize(
    "kernel, package",
    [
        ("5.15.0-203-generic", "linux-modules-nvidia-580-server-open-generic"),
        ("6.8.0-149-generic", "linux-modules-nvidia-580-server-open-generic-hwe-22.04"),
        ("6.8.0-1031-azure", "linux-modules-nvidia-580-server-open-azure"),
        ("5.15.0-203-lowlatency", "linux-modules-nvidia-580-server-open-lowlatency"),
    ],
)
def test_ubuntu_s_modules_follow_the_kernel(kernel: str, package: str) -> None:
    assert plan("ubuntu_22.04", around={"kernel": kernel}, source="distribution")["packages"][0] == package


def test_a_kernel_that_nobody_builds_for_gets_dkms() -> None:
    found = plan("ubuntu_22.04", around={"kernel": "6.18.44-own"}, source="distribution")
    assert (found["build"], found["packages"][0]) == ("dkms", "nvidia-headless-580-server-open")
    assert found["notices"] == [
        "Kernel 6.18.44-own is not one of Ubuntu 22.04's: its headers, which DKMS needs, have to be there already."
    ]
    assert "nvidia_driver_module_build" in refusal(
        "ubuntu_22.04", source="distribution", around={"kernel": "6.18.44-own"}, module_build="prebuilt"
    )


@pytest.mark.parametrize(
    "system, modules, stream",
    [
        ("el_9", "open", "nvidia-driver:580-open"),
        ("el_8", "proprietary", "nvidia-driver:580-dkms"),
        ("el_9", "none", None),
        ("el_10", "open", None),
        ("debian_12", "open", None),
    ],
)
def test_module_streams(system: str, modules: str, stream: t.Optional[str]) -> None:
    assert plan(system, kernel_modules=modules)["module_stream"] == stream


@pytest.mark.parametrize(
    "system, url, key",
    [
        ("debian_12", "debian12/x86_64", "3bf863cc.pub"),
        ("debian_13", "debian13/x86_64", "8793F200.pub"),
        ("ubuntu_20.04", "ubuntu2004/x86_64", "3bf863cc.pub"),
        ("el_10", "rhel10/x86_64", "D42D0685.pub"),
    ],
)
def test_the_vendor_s_repository(system: str, url: str, key: str) -> None:
    repository = plan(system)["repository"]
    assert repository["url"].endswith("/compute/cuda/repos/" + url)
    assert repository["key"] == "%s/%s" % (repository["url"], key)
    assert repository["fingerprint"].endswith(key.split(".")[0].upper())
    assert len(repository["fingerprint"]) == 40
    arm = plan(system, around={"architecture": "aarch64"})["repository"]
    assert arm["url"].endswith("/sbsa")
    assert "ppc64le" in refusal(system, around={"architecture": "ppc64le"})


# --- Branches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system, asked, gives",
    [("ubuntu_20.04", "515", "535"), ("ubuntu_22.04", "515", "580"), ("ubuntu_24.04", "515", "580"),
     ("ubuntu_26.04", "535", "580")],
)  # fmt: skip
def test_a_transitional_branch_says_what_it_gives(system: str, asked: str, gives: str) -> None:
    found = plan(system, source="distribution", branch=asked)
    assert (found["branch_asked"], found["branch"]) == (asked, gives)
    assert found["notices"] == [
        "Branch %s is transitional on %s: its packages install branch %s, which is what will be installed."
        % (asked, table(system)["title"], gives)
    ]


def test_a_branch_that_is_what_it_says_needs_no_words() -> None:
    assert plan("ubuntu_22.04", source="distribution")["notices"] == []
    assert plan("ubuntu_22.04", branch="515")["branch"] == "515"


@pytest.mark.parametrize(
    "system, wishes, words",
    [
        ("debian_12", {"source": "distribution"}, ["no branch 580, but 535", "cuda_repository"]),
        ("debian_13", {"source": "distribution", "branch": "515"}, ["no branch 515, but 550"]),
        ("ubuntu_20.04", {"source": "distribution"}, ["no branch 580, but 535, 550, 570"]),
        ("ubuntu_26.04", {"source": "distribution", "branch": "515"}, ["no branch 515, but 580, 595, 615"]),
        ("ubuntu_24.04", {"source": "distribution", "branch": "615"}, ["no server series", "nvidia_driver_server"]),
        ("ubuntu_20.04", {"source": "distribution", "branch": "550", "server": False}, ["server series only"]),
        ("el_9", {"source": "distribution"}, ["no NVIDIA driver of its own", "cuda_repository"]),
        ("debian_12", {"branch": "470"}, ["'470'", "from 515 on"]),
        ("debian_12", {"branch": "latest"}, ["'latest'"]),
        ("debian_12", {"version": "580.126.20-1"}, ["'580.126.20-1'", "without what the package adds"]),
        ("debian_12", {"version": "570.133.20"}, ["570.133.20 is not of branch 580"]),
        ("ubuntu_24.04", {"source": "distribution", "branch": "615", "server": False, "kernel_modules": "proprietary"},
         ["only the open kernel module"]),
        ("debian_12", {"branch": "620", "kernel_modules": "proprietary"}, ["only the open kernel module", "auto"]),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_refused(system: str, wishes: Data, words: t.List[str]) -> None:
    message = refusal(system, **wishes)
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
    assert plan("debian_12", gpu(device), branch=branch)["modules"] == modules


@pytest.mark.parametrize(
    "gpus, wishes, words",
    [
        ([A100, V100, B200], {}, ["no kernel module runs all", "(Blackwell) needs the open", "Volta) needs the propr"]),
        ([B200], {"kernel_modules": "proprietary"}, ["only the open kernel module", "2901"]),
        ([V100], {"kernel_modules": "open"}, ["only the proprietary"]),
        ([A100, GH200], {"kernel_modules": "proprietary"}, ["only the open kernel module"]),
        ([K80], {}, ["Kepler", "take it out"]),
        ([V100], {"branch": "595"}, ["up to 580 only"]),
        ([B200], {"branch": "550"}, ["570 or later"]),
        ([B300], {"branch": "570"}, ["580 or later"]),
    ],
)  # fmt: skip
def test_what_cannot_run_the_gpus_is_refused(gpus: t.List[str], wishes: Data, words: t.List[str]) -> None:
    message = refusal("debian_12", *(gpu(device, slot) for slot, device in enumerate(gpus)), **wishes)
    assert [word for word in words if word not in message] == []


def test_no_kernel_module_is_anybody_s_wish() -> None:
    assert plan("debian_12", gpu(A100), gpu(V100, 1), gpu(B200, 2), kernel_modules="none")["modules"] == "none"


def test_every_board_is_of_a_generation_that_its_modules_fit() -> None:
    for name in _boards.names():
        for device in _boards.data(name)["pci_device_ids"]:
            generation = _driver_generations.generation(device)
            assert generation in _driver_generations.GENERATIONS
            assert "open" in generation.modules, name


def test_a_node_without_gpu_is_refused_unless_its_boards_are_told() -> None:
    empty = {"gpus": []}
    assert "nvidia_driver_boards" in refusal("debian_12", around=empty)
    found = plan("debian_12", around=empty, boards=["B300"])
    assert (found["modules"], found["minimum_version"]) == ("open", "580.82.07")
    assert "A100-80GB" in refusal("debian_12", around=empty, boards=["A1000"])


# --- The lowest driver of a board -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, branch, version, fits",
    [
        (H200, "550", "", True),
        (H200, "535", "", False),
        (H200, "550", "550.54.15", False),
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
        assert plan("ubuntu_22.04", gpu(device), branch=branch, version=version)["branch"] == branch
    else:
        assert "or later" in refusal("ubuntu_22.04", gpu(device), branch=branch, version=version)


def test_the_most_demanding_board_counts() -> None:
    message = refusal("ubuntu_22.04", gpu(A100), gpu(H200, 1), branch="535")
    assert "H200-141GB needs driver 550.90.07 or later, and 535 would be installed" in message


# --- Fabric manager ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system, wishes, package",
    [
        ("debian_12", {}, "nvidia-fabricmanager-580"),
        ("debian_12", {"branch": "595"}, "nvidia-fabricmanager"),
        ("ubuntu_22.04", {"source": "distribution"}, "nvidia-fabricmanager-580"),
        ("ubuntu_24.04", {"branch": "570"}, "nvidia-fabricmanager-570"),
        ("el_9", {}, "nvidia-fabricmanager"),
        ("el_9", {"branch": "570"}, "nvidia-fabric-manager"),
    ],
)
def test_the_fabric_manager_comes_with_nvswitches(system: str, wishes: Data, package: str) -> None:
    found = plan(system, switches=6, **wishes)
    assert (found["fabric_manager"], found["packages"][-1]) == (True, package)
    without = plan(system, switches=0, **wishes)
    assert not without["fabric_manager"]
    assert without["packages"] == found["packages"][:-1]
    assert plan(system, switches=6, fabric_manager="absent", **wishes) == without
    assert plan(system, switches=0, fabric_manager="present", **wishes) == found


def test_fabric_managers_that_do_not_fit() -> None:
    assert "nvidia_driver_server to true" in refusal("ubuntu_22.04", switches=4, source="distribution", server=False)
    assert "cuda_repository" in refusal("debian_12", switches=4, source="distribution", branch="535")


def test_nvswitches_that_the_bus_does_not_show_are_told_of() -> None:
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


def test_secure_boot_is_told_of_where_modules_are_built_on_the_node() -> None:
    secure = {"secure_boot": "enabled"}
    assert any("mokutil" in notice for notice in plan("debian_12", around=secure)["notices"])
    assert plan("ubuntu_22.04", around=secure, source="distribution")["notices"] == []
    assert plan("debian_12", around=secure, kernel_modules="none")["notices"] == []
