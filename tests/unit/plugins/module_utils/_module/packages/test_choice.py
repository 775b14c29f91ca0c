# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The choice of version and packages."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import choice, dnf
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.choice import (
    Choice,
    Desired,
    Package,
    Refusal,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._module.packages.packages_support import (
    NEW,
    OLD,
    PLANNED,
    desired,
    dpkg,
    installed,
)

Rows = t.Sequence[t.Tuple[str, str, str]]


OFFERS = {
    "nvidia-smi": [NEW, OLD],
    "libnvidia-ml1": [NEW, OLD],
    "nvidia-persistenced": ["535.171.04-1~deb12u1"],
    "dkms": ["3.0.10-8"],
}


# --- Status -----------------------------------------------------------------------------------------------------------


def test_status_of_a_new_node() -> None:
    found = choice.package_status([], desired())
    assert found.version is None
    assert found.missing == list(PLANNED)
    assert found.broken == found.to_hold == found.scope == []


def test_status_of_a_node_that_has_the_driver() -> None:
    found = choice.package_status(installed(NEW, "hi "), desired())
    assert found.version == "535.309.01"
    assert not found.incomplete
    names = ["libnvidia-ml1", "nvidia-alternative", "nvidia-smi"]
    assert sorted(each.name for each in found.to_hold) == names
    assert "nvidia-alternative" in found.scope
    assert "nvidia-container-toolkit" not in found.scope  # of another role
    assert "nvidia-kernel-dkms" not in found.scope


def test_a_package_of_another_version_is_listed() -> None:
    packages = installed(NEW) + dpkg(("ii ", "nvidia-fabricmanager-535", "535.261.03-1"))
    found = choice.package_status(packages, desired("nvidia-smi", "libnvidia-ml1", "nvidia-fabricmanager-535"))
    assert (found.version, found.mixed) == ("535.309.01", ["nvidia-fabricmanager-535 535.261.03-1"])


@pytest.mark.parametrize(
    "state, words", [("iF ", "half-configured"), ("iU ", "unpacked"), ("iHR", "half-installed"), ("iiR", "reinstall")]
)
def test_broken_packages_are_missing_and_named(state: str, words: str) -> None:
    found = choice.package_status(
        dpkg((state, "nvidia-open-kernel-dkms", "550.163.01-2")), desired("nvidia-open-kernel-dkms")
    )
    assert found.missing == ["nvidia-open-kernel-dkms"]
    assert len(found.broken) == 1
    assert words in found.broken[0]


def test_the_exact_version_counts_if_it_has_a_revision() -> None:
    toolkit = Desired("nvidia_container_toolkit", ["nvidia-container-toolkit", "libnvidia-container1"], "1.20.1-1")
    packages = dpkg(("ii ", "nvidia-container-toolkit", "1.20.1-1"), ("ii ", "libnvidia-container1", "1.20.1-2"))
    assert choice.package_status(packages, toolkit).mixed == ["nvidia-container-toolkit 1.20.1-1"]
    assert choice.package_differences(choice.package_status(packages[:1], toolkit), toolkit) == [
        "libnvidia-container1: not installed"
    ]


def test_rpm_packages_are_known_by_their_full_name_too() -> None:
    packages = dnf.parse(
        "nvidia-driver-cuda\t3:580.126.20-1.el9\tx86_64\n"
        "kmod-nvidia-open-dkms\t3:580.126.20-1.el9\tnoarch\n"
        "kernel-devel\t0:5.14.0-503.el9\tx86_64\n"
        "nvidia-container-toolkit\t0:1.17.8-1\tx86_64\n"
    )
    wanted = desired(KERNEL_DEVEL, "kmod-nvidia-open-dkms", "nvidia-driver-cuda", branch="580")
    found = choice.package_status(packages, wanted)
    assert (found.version, found.missing) == ("580.126.20", [])
    assert KERNEL_DEVEL in found.scope
    assert sorted(each.name for each in found.to_hold) == ["kmod-nvidia-open-dkms", "nvidia-driver-cuda"]


# --- Differences ------------------------------------------------------------------------------------------------------


def differences(packages: t.List[Package], wanted: Desired) -> t.List[str]:
    return choice.package_differences(choice.package_status(packages, wanted), wanted)


def test_a_node_that_matches_has_no_differences() -> None:
    assert differences(installed(NEW), desired()) == []


@pytest.mark.parametrize(
    "packages, wanted, words",
    [
        (installed(NEW), desired(branch="550"), "driver 535.309.01 is installed, and branch 550 is requested"),
        (
            installed(NEW),
            desired(version="535.261.03"),
            "driver 535.309.01 is installed, and 535.261.03 is requested, which is a downgrade",
        ),
        (
            installed(NEW),
            desired(branch="515"),
            "driver 535.309.01 is installed, and branch 515 is requested, which is a downgrade",
        ),
        (
            dpkg(("ii ", "nvidia-smi", "535.309.01~rc.1-1")),
            desired("nvidia-smi", version="535.309.01"),
            "driver 535.309.01~rc.1 is installed, and 535.309.01 is requested",
        ),
        (
            dpkg(("ii ", "nvidia-smi", "535.309.01-1")),
            desired("nvidia-smi", version="535.309.01~rc.1"),
            "driver 535.309.01 is installed, and 535.309.01~rc.1 is requested, which is a downgrade",
        ),
        (installed(NEW), desired("nvidia-smi", "nvidia-kernel-dkms"), "nvidia-kernel-dkms: not installed"),
        (
            installed(NEW) + dpkg(("hF ", "nvidia-kernel-dkms", NEW)),
            desired(),
            "nvidia-kernel-dkms (half-configured): left half installed by the package manager",
        ),
        (  # one cause, one message
            installed(NEW) + dpkg(("hF ", "nvidia-kernel-dkms", NEW)),
            desired("nvidia-smi", "libnvidia-ml1", "nvidia-kernel-dkms"),
            "nvidia-kernel-dkms (half-configured): left half installed by the package manager",
        ),
        (
            installed(NEW) + dpkg(("hi ", "nvidia-kernel-dkms", OLD)),
            desired("nvidia-smi", "libnvidia-ml1", "nvidia-kernel-dkms"),
            "nvidia-kernel-dkms 535.261.03-1: version differs from driver 535.309.01",
        ),
    ],
)
def test_differences(packages: t.List[Package], wanted: Desired, words: str) -> None:
    assert differences(packages, wanted) == [words]


def test_a_node_without_the_driver() -> None:
    (difference,) = differences([], desired())
    assert difference.startswith(
        "no package of the driver is installed, and branch 535 is requested (if it is provided"
    )
    assert "leave nvidia_driver out of gpu_node_roles" in difference


# --- Choice -----------------------------------------------------------------------------------------------------------


def choose(
    packages: t.List[Package],
    offers: t.Optional[choice.Offers] = None,
    wanted: t.Optional[Desired] = None,
    separator: str = "=",
) -> Choice:
    wanted = wanted or desired()
    offers = OFFERS if offers is None else offers
    return choice.choose_packages(packages, choice.package_status(packages, wanted), offers, wanted, separator)


def refusal(
    packages: t.List[Package],
    offers: t.Optional[choice.Offers] = None,
    wanted: t.Optional[Desired] = None,
    **more: t.Any,
) -> str:
    with pytest.raises(Refusal) as caught:
        choose(packages, offers, wanted, **more)
    return str(caught.value)


def test_the_newest_version_of_the_branch_is_installed_on_a_new_node() -> None:
    assert choose([]) == Choice("535.309.01", ["nvidia-smi=" + NEW, "libnvidia-ml1=" + NEW, "nvidia-persistenced"], [])


def test_an_installed_version_is_kept() -> None:
    assert choose(installed(OLD), {}) == Choice("535.261.03", [], [])
    assert choose(installed(OLD)) == Choice("535.261.03", [], [])


def test_a_missing_package_is_installed_in_the_installed_version() -> None:
    found = choose(installed(OLD), {**OFFERS, "libcuda1": [NEW, OLD]}, desired("nvidia-smi", "libcuda1"))
    assert (found.version, found.install) == ("535.261.03", ["nvidia-smi=" + OLD, "libcuda1=" + OLD])


def test_a_package_of_another_version_is_replaced() -> None:
    packages = installed(NEW) + dpkg(("ii ", "nvidia-fabricmanager-535", "535.261.03-1"))
    offers = {**OFFERS, "nvidia-fabricmanager-535": ["535.309.01-1", "535.261.03-1"]}
    found = choose(packages, offers, desired("nvidia-smi", "libnvidia-ml1", "nvidia-fabricmanager-535"))
    assert (found.version, found.install[-1]) == ("535.309.01", "nvidia-fabricmanager-535=535.309.01-1")


def test_an_upgrade_is_installed_on_request() -> None:
    found = choose(installed(OLD, "hi "), wanted=desired(upgrade=True))
    assert found.version == "535.309.01"
    assert found.install == ["nvidia-smi=" + NEW, "libnvidia-ml1=" + NEW]
    assert choose(installed(NEW), wanted=desired(upgrade=True)).install == []


def test_an_upgrade_never_downgrades() -> None:
    offers = {"nvidia-smi": [OLD], "libnvidia-ml1": [OLD]}
    assert choose(installed(NEW), offers, desired(upgrade=True)) == Choice("535.309.01", [], [])


def test_an_exact_version_may_be_older() -> None:
    found = choose(installed(NEW), wanted=desired(version="535.261.03"))
    assert (found.version, found.install) == ("535.261.03", ["nvidia-smi=" + OLD, "libnvidia-ml1=" + OLD])


def test_another_branch_is_a_change() -> None:
    offers = {"nvidia-driver-cuda": ["590.48.01-1", "580.126.20-1", "580.105.08-1", "535.309.01-1"]}
    found = choose(installed(NEW), offers, desired("nvidia-driver-cuda", branch="580"))
    assert (found.version, found.install) == ("580.126.20", ["nvidia-driver-cuda=580.126.20-1"])


def test_all_packages_are_installed_in_a_version_that_all_have() -> None:
    """Debian 12: the open kernel module was left at an older version."""
    offers = {**OFFERS, "nvidia-open-kernel-dkms": [OLD]}
    found = choose([], offers, desired("nvidia-open-kernel-dkms", "nvidia-smi", "nvidia-persistenced"))
    assert found.version == "535.261.03"
    assert found.install == ["nvidia-open-kernel-dkms=" + OLD, "nvidia-smi=" + OLD, "nvidia-persistenced"]


def test_an_exact_version_with_its_revision() -> None:
    toolkit = Desired("nvidia_container_toolkit", ["nvidia-container-toolkit"], "1.20.1-1")
    offers = {"nvidia-container-toolkit": ["1.20.1-2", "1.20.1-1", "1.20.0-1"]}
    assert choose([], offers, toolkit).install == ["nvidia-container-toolkit=1.20.1-1"]
    assert "1.20.1-1 cannot be installed: nvidia-container-toolkit is not offered" in refusal([], {}, toolkit)
    assert "is offered as 1.20.0-1" in refusal([], {"nvidia-container-toolkit": ["1.20.0-1"]}, toolkit)


def test_packages_of_any_version() -> None:
    containerd = Desired("nvidia_container_toolkit", ["containerd", "runc"])
    offers = {"containerd": ["1.6.20~ds1-1"], "runc": ["1.1.5+ds1-1"]}
    assert choose([], offers, containerd) == Choice(None, ["containerd", "runc"], [])
    packages = dpkg(("ii ", "containerd", "1.6.20~ds1-1"), ("ii ", "runc", "1.1.5+ds1-1"))
    assert choose(packages, {}, containerd) == Choice(None, [], [])
    assert not choice.needs_offers(choice.package_status(packages, containerd), containerd)
    assert "containerd is not offered; runc is not offered. Check the package sources" in refusal([], {}, containerd)


UTILS, IMAGE, MODULES = (
    "nvidia-utils-580-server",
    "linux-image-generic-6.8",
    "linux-modules-nvidia-580-server-generic-6.8",
)
RUNNING = "linux-modules-nvidia-580-server-6.8.0-149-generic"
UBUNTU = "580.178.04-0ubuntu0.24.04.1"


def ubuntu(**more: t.Any) -> Desired:
    return desired(
        IMAGE, MODULES, UTILS, branch="580", kernel_packages=[IMAGE, MODULES], optional_packages=[RUNNING], **more
    )


def ubuntu_offers(kernel: str = "6.8.0-151.151", driver: str = UBUNTU, running: bool = True) -> choice.Offers:
    offers = {IMAGE: [kernel], MODULES: [kernel], UTILS: [driver]}
    return {**offers, RUNNING: ["6.8.0-149.149+1"]} if running else offers


def ubuntu_node(kernel: str = "6.8.0-149.149", state: str = "hi ") -> t.List[Package]:
    return dpkg(
        (state, IMAGE, kernel),
        (state, "linux-image-generic-hwe-24.04", "7.0.0-27.27~24.04.1"),
        ("ii ", "linux-image-6.8.0-149-generic", "6.8.0-149.149"),
        ("ii ", "linux-image-6.8.0-1064-nvidia", "6.8.0-1064.67"),
        (state, MODULES, kernel),
        ("ii ", RUNNING, "6.8.0-149.149+1"),
        (state, UTILS, UBUNTU),
    )


def test_module_packages_of_ubuntu_have_the_version_of_the_kernel() -> None:
    found = choose([], ubuntu_offers(), ubuntu())
    assert found.install == [IMAGE, MODULES, UTILS + "=" + UBUNTU]
    assert found.optional == [RUNNING]
    assert choose([], ubuntu_offers(running=False), ubuntu()).optional == []


def test_kernels_are_held_with_the_driver_whose_modules_follow_them() -> None:
    found = choice.package_status(ubuntu_node(), ubuntu())
    assert sorted(each.name for each in found.to_hold) == [IMAGE, "linux-image-generic-hwe-24.04", MODULES, UTILS]
    assert "linux-image-6.8.0-1064-nvidia" not in found.scope  # a kernel is never removed with the driver
    with_dkms = choice.package_status(ubuntu_node(), desired(UTILS, branch="580"))
    assert [each.name for each in with_dkms.to_hold] == [UTILS]


def test_later_kernels_are_installed_by_an_upgrade_only() -> None:
    assert choose(ubuntu_node(), ubuntu_offers(), ubuntu()).install == []
    found = choose(ubuntu_node(), ubuntu_offers(), ubuntu(upgrade=True))
    assert found.install == [IMAGE + "=6.8.0-151.151", MODULES + "=6.8.0-151.151", UTILS + "=" + UBUNTU]
    assert choose(ubuntu_node("6.8.0-151.151"), ubuntu_offers(), ubuntu(upgrade=True)).install == []
    newer = UBUNTU.replace("178", "190")
    found = choose(ubuntu_node(), ubuntu_offers(driver=newer), ubuntu(version="580.190.04"))
    assert found.install == [IMAGE + "=6.8.0-151.151", MODULES + "=6.8.0-151.151", UTILS + "=" + newer]


KERNEL_DEVEL = "kernel-devel-5.14.0-503.el9.x86_64"
CUDA_RPM = {"nvidia-driver-cuda": ["3:580.126.20-1.el9"]}


def test_dnf_selects_by_name_and_version() -> None:
    offers = {"nvidia-driver-cuda": ["3:580.126.20-1.el9", "3:580.105.08-1.el9", "3:590.1.1-1"]}
    found = choose([], offers, desired("nvidia-driver-cuda", branch="580"), "-")
    assert found.install == ["nvidia-driver-cuda-3:580.126.20-1.el9"]


def test_headers_of_the_running_kernel() -> None:
    wanted = desired(KERNEL_DEVEL, "nvidia-driver-cuda", branch="580", headers=KERNEL_DEVEL)
    found = choose([], {**CUDA_RPM, KERNEL_DEVEL: ["5.14.0-503.el9"]}, wanted, "-")
    assert found.install == [KERNEL_DEVEL, "nvidia-driver-cuda-3:580.126.20-1.el9"]
    there = dnf.parse("kernel-devel\t0:5.14.0-503.el9\tx86_64\n")
    assert choose(there, CUDA_RPM, wanted, "-").install == ["nvidia-driver-cuda-3:580.126.20-1.el9"]
    message = refusal([], {**CUDA_RPM, "kernel-devel": ["5.14.0-570.el9"]}, wanted)
    assert "offer no " + KERNEL_DEVEL in message
    assert "upgrade the kernel and reboot first" in message


@pytest.mark.parametrize(
    "packages, offers, wanted, words",
    [
        ([], {}, desired(), ["no driver of branch 535 in one version", "none of nvidia-smi", "non-free"]),
        ([], OFFERS, desired(branch="550"), ["branch 550", "nvidia-smi as 535.309.01, 535.261.03"]),
        ([], OFFERS, desired(version="535.1.2"), ["535.1.2 cannot be installed", "535.309.01, 535.261.03"]),
        ([], OFFERS, desired("nvidia-smi", "nvidia-fabricmanager-535"), ["nvidia-fabricmanager-535 is not offered"]),
        ([], {**OFFERS, "libcuda1": ["535.1.1-1"]}, desired("nvidia-smi", "libcuda1"), ["in one version", "535.1.1"]),
        ([], OFFERS, desired(minimum_version="535.400.01", minimum_for="H20-96GB"),
         ["H20-96GB needs driver 535.400.01 or later, and 535.309.01 would be"]),
        ([], OFFERS, desired("linux-headers-6.1", "nvidia-smi", "missing", headers="linux-headers-6.1",
                             minimum_version="535.400.01", minimum_for="H20-96GB"),
         ["H20-96GB needs", "; the node's package sources offer no linux-headers-6.1",
          "first; driver 535.309.01 cannot be installed: missing is not offered. Check"]),
    ],
)  # fmt: skip
def test_unavailable_packages(
    packages: t.List[Package], offers: choice.Offers, wanted: Desired, words: t.List[str]
) -> None:
    message = refusal(packages, offers, wanted)
    assert [word for word in words if word not in message] == []


def test_a_broken_package_is_reinstalled() -> None:
    packages = installed(NEW) + dpkg(("iF ", "nvidia-kernel-dkms", NEW))
    found = choose(packages, {**OFFERS, "nvidia-kernel-dkms": [NEW]}, desired("nvidia-smi", "nvidia-kernel-dkms"))
    assert found.install == ["nvidia-smi=" + NEW, "nvidia-kernel-dkms=" + NEW]
