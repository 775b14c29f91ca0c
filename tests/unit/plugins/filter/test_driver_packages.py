# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters driver_status, driver_problems, driver_choice and driver_failure."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.driver_choice import FilterModule as Choice
from ansible_collections.gpufleet.node.plugins.filter.driver_failure import FilterModule as Failure
from ansible_collections.gpufleet.node.plugins.filter.driver_problems import FilterModule as Problems
from ansible_collections.gpufleet.node.plugins.filter.driver_status import FilterModule as Status

driver_status = Status().filters()["driver_status"]
driver_problems = Problems().filters()["driver_problems"]
driver_choice = Choice().filters()["driver_choice"]
driver_failure = Failure().filters()["driver_failure"]

Data = t.Dict[str, t.Any]

OLD, NEW = "535.261.03-1", "535.309.01-0+deb12u1"
INDEPENDENT = ["nvidia-persistenced"]


def plan(*packages: str, version: t.Optional[str] = None, branch: str = "535", **more: t.Any) -> Data:
    names = packages or ("nvidia-smi", "libnvidia-ml1", "nvidia-persistenced")
    return {
        "packages": list(names),
        "version": version,
        "branch": branch,
        "minimum_version": None,
        "minimum_board": None,
        "host": "gpu-1",
        "kernel": "6.1.0-56-amd64",
        "headers": None,
        **more,
    }


def dpkg(*rows: t.Tuple[str, str, str]) -> str:
    return "".join("%s\t%s\t%s\n" % row for row in rows)


def installed(version: str, state: str = "ii ") -> str:
    return dpkg(
        (state, "nvidia-smi", version),
        (state, "libnvidia-ml1", version),
        (state, "nvidia-alternative", version),
        ("ii ", "nvidia-persistenced", "535.171.04-1~deb12u1"),
        ("ii ", "nvidia-support", "20220217+3~deb12u1"),
        ("ii ", "nvidia-container-toolkit", "1.17.8-1"),
        ("un ", "nvidia-driver", ""),
        ("rc ", "nvidia-kernel-dkms", OLD),
    )


def madison(**versions: t.Sequence[str]) -> str:
    """What apt-cache prints of each, newest first."""
    return "".join(
        " %s | %s | http://mirror.example bookworm/non-free amd64 Packages\n" % (name.replace("_", "-"), version)
        for name, offered in versions.items()
        for version in offered
    )


OFFERS = madison(
    nvidia_smi=[NEW, OLD], libnvidia_ml1=[NEW, OLD], nvidia_persistenced=["535.171.04-1~deb12u1"], dkms=["3.0.10-8"]
)


# --- Status -----------------------------------------------------------------------------------------------------------


def test_status_of_a_virgin_node() -> None:
    found = driver_status("", plan(), "apt")
    assert found["version"] is None
    assert found["missing"] == ["nvidia-smi", "libnvidia-ml1", "nvidia-persistenced"]
    assert found["broken"] == found["held"] == found["driver"] == found["present"] == []


def test_status_of_a_node_that_has_it() -> None:
    found = driver_status(installed(NEW, "hi "), plan(), "apt", INDEPENDENT)
    assert found["version"] == "535.309.01"
    assert found["missing"] == found["broken"] == found["mixed"] == []
    assert found["driver"] == found["held"] == ["libnvidia-ml1", "nvidia-alternative", "nvidia-smi"]
    assert "nvidia-alternative" in found["present"]
    assert "nvidia-container-toolkit" not in found["present"]  # it is not this role's to take away
    assert "nvidia-kernel-dkms" not in found["present"]


def test_a_package_of_another_version_is_seen() -> None:
    text = installed(NEW) + dpkg(("ii ", "nvidia-fabricmanager-535", "535.261.03-1"))
    found = driver_status(text, plan("nvidia-smi", "nvidia-fabricmanager-535"), "apt", INDEPENDENT)
    assert (found["version"], found["mixed"]) == ("535.309.01", ["nvidia-fabricmanager-535 535.261.03-1"])


@pytest.mark.parametrize(
    "state, words", [("iF ", "half-configured"), ("iU ", "unpacked"), ("iHR", "half-installed"), ("iiR", "reinstall")]
)
def test_broken_packages_are_missing_and_named(state: str, words: str) -> None:
    found = driver_status(
        dpkg((state, "nvidia-open-kernel-dkms", "550.163.01-2")), plan("nvidia-open-kernel-dkms"), "apt"
    )
    assert found["missing"] == ["nvidia-open-kernel-dkms"]
    assert len(found["broken"]) == 1
    assert words in found["broken"][0]


def test_a_node_as_it_should_be_has_no_problems() -> None:
    assert driver_problems(installed(NEW, "hi "), plan(), "apt", independent=INDEPENDENT) == []
    assert driver_problems(installed(NEW), plan(), "apt", hold=False, independent=INDEPENDENT) == []


@pytest.mark.parametrize(
    "text, wanted, words",
    [
        (installed(NEW, "hi "), plan(branch="550"), "driver 535.309.01 is installed, and branch 550 is asked for"),
        (
            installed(NEW, "hi "),
            plan(version="535.261.03"),
            "driver 535.309.01 is installed, and 535.261.03 is asked for",
        ),
        (installed(NEW, "hi "), plan("nvidia-smi", "nvidia-kernel-dkms"), "nvidia-kernel-dkms: not installed"),
        (
            installed(NEW, "hi ") + dpkg(("hF ", "nvidia-kernel-dkms", NEW)),
            plan(),
            "nvidia-kernel-dkms (half-configured): left half done by the package manager",
        ),
        (
            installed(NEW, "hi ") + dpkg(("hi ", "nvidia-kernel-dkms", OLD)),
            plan("nvidia-kernel-dkms"),
            "nvidia-kernel-dkms 535.261.03-1: of another version than driver 535.309.01",
        ),
        (
            installed(NEW),
            plan(),
            "not held, so that an upgrade of the system changes the driver: libnvidia-ml1, nvidia-alternative, nvidia-smi",
        ),
    ],
)
def test_what_is_wrong_with_a_node(text: str, wanted: Data, words: str) -> None:
    assert driver_problems(text, wanted, "apt", independent=INDEPENDENT) == [words]


def test_a_node_without_a_driver() -> None:
    assert driver_problems("", plan(), "apt")[0].startswith(
        "no package of a driver is installed, and branch 535 is asked"
    )


def test_an_rpm_node_keeps_its_versions_by_locks() -> None:
    text = "nvidia-driver-cuda\t3:580.126.20\t1.el9\tx86_64\n"
    lock = "nvidia-driver-cuda-3:580.126.20-1.el9.*"
    wanted = plan("nvidia-driver-cuda", branch="580")
    assert driver_problems(text, wanted, "dnf", locks=["# BEGIN", lock + " "]) == []
    assert driver_problems(text, wanted, "dnf", locks=["# " + lock]) == [
        "not held, so that an upgrade of the system changes the driver: " + lock
    ]


def test_status_of_an_rpm_node() -> None:
    text = (
        "nvidia-driver-cuda\t3:580.126.20\t1.el9\tx86_64\n"
        "kmod-nvidia-open-dkms\t3:580.126.20\t1.el9\tnoarch\n"
        "kernel-devel\t5.14.0\t503.el9\tx86_64\n"
        "nvidia-container-toolkit\t1.17.8\t1\tx86_64\n"
    )
    wanted = plan("kernel-devel-5.14.0-503.el9.x86_64", "kmod-nvidia-open-dkms", "nvidia-driver-cuda", branch="580")
    found = driver_status(text, wanted, "dnf")
    assert (found["version"], found["missing"]) == ("580.126.20", [])
    assert "kernel-devel-5.14.0-503.el9.x86_64" in found["present"]
    assert found["locks"] == ["kmod-nvidia-open-dkms-3:580.126.20-1.el9.*", "nvidia-driver-cuda-3:580.126.20-1.el9.*"]


# --- Choice -----------------------------------------------------------------------------------------------------------


def choose(
    text: str, offers: str = OFFERS, wanted: t.Optional[Data] = None, manager: str = "apt", **more: t.Any
) -> Data:
    return t.cast(Data, driver_choice(text, offers, wanted or plan(), manager, independent=INDEPENDENT, **more))


def refusal(text: str, offers: str = OFFERS, wanted: t.Optional[Data] = None, **more: t.Any) -> str:
    with pytest.raises(AnsibleFilterError) as caught:
        choose(text, offers, wanted, **more)
    return str(caught.value)


def test_a_virgin_node_gets_the_newest_of_the_branch() -> None:
    found = choose("")
    assert (found["version"], found["downgrade"]) == ("535.309.01", False)
    assert found["install"] == [
        "nvidia-smi=" + NEW,
        "libnvidia-ml1=" + NEW,
        "nvidia-persistenced",
    ]


def test_what_is_there_stays() -> None:
    assert choose(installed(OLD), "") == {"version": "535.261.03", "install": [], "downgrade": False, "if_it_fits": []}
    assert choose(installed(OLD)) == {"version": "535.261.03", "install": [], "downgrade": False, "if_it_fits": []}


def test_what_is_missing_comes_in_the_version_that_is_there() -> None:
    found = choose(installed(OLD), OFFERS + madison(libcuda1=[NEW, OLD]), plan("nvidia-smi", "libcuda1"))
    assert (found["version"], found["install"]) == ("535.261.03", ["nvidia-smi=" + OLD, "libcuda1=" + OLD])


def test_a_package_of_another_version_is_brought_into_line() -> None:
    text = installed(NEW) + dpkg(("ii ", "nvidia-fabricmanager-535", "535.261.03-1"))
    offers = OFFERS + madison(nvidia_fabricmanager_535=["535.309.01-1", "535.261.03-1"])
    found = choose(text, offers, plan("nvidia-smi", "nvidia-fabricmanager-535"))
    assert (found["version"], found["install"][-1]) == ("535.309.01", "nvidia-fabricmanager-535=535.309.01-1")


def test_an_upgrade_is_asked_for() -> None:
    found = choose(installed(OLD, "hi "), upgrade=True, own_holds=["nvidia-smi", "libnvidia-ml1", "nvidia-alternative"])
    assert (found["version"], found["downgrade"]) == ("535.309.01", False)
    assert found["install"][:2] == ["nvidia-smi=" + NEW, "libnvidia-ml1=" + NEW]
    assert choose(installed(NEW), upgrade=True)["install"] == []


def test_an_upgrade_never_goes_back() -> None:
    offers = madison(nvidia_smi=[OLD], libnvidia_ml1=[OLD])
    assert choose(installed(NEW), offers, upgrade=True) == {
        "version": "535.309.01",
        "install": [],
        "downgrade": False,
        "if_it_fits": [],
    }


def test_an_exact_version_may_be_older() -> None:
    found = choose(installed(NEW), wanted=plan(version="535.261.03"))
    assert (found["version"], found["downgrade"]) == ("535.261.03", True)


def test_another_branch_is_a_change() -> None:
    offers = madison(nvidia_driver_cuda=["590.48.01-1", "580.126.20-1", "580.105.08-1", "535.309.01-1"])
    found = choose(installed(NEW), offers, plan("nvidia-driver-cuda", branch="580"))
    assert (found["version"], found["install"]) == ("580.126.20", ["nvidia-driver-cuda=580.126.20-1"])


def test_all_packages_come_in_a_version_that_all_are_offered_in() -> None:
    """Debian 12 today: the open kernel module stayed behind."""
    offers = OFFERS + madison(nvidia_open_kernel_dkms=[OLD])
    found = choose("", offers, plan("nvidia-open-kernel-dkms", "nvidia-smi", "nvidia-persistenced"))
    assert found["version"] == "535.261.03"
    assert found["install"] == ["nvidia-open-kernel-dkms=" + OLD, "nvidia-smi=" + OLD, "nvidia-persistenced"]


UTILS, IMAGE, MODULES = (
    "nvidia-utils-580-server",
    "linux-image-generic-6.8",
    "linux-modules-nvidia-580-server-generic-6.8",
)
RUNNING = "linux-modules-nvidia-580-server-6.8.0-149-generic"
UBUNTU = "580.178.04-0ubuntu0.24.04.1"


def ubuntu_plan() -> Data:
    return plan(IMAGE, MODULES, UTILS, branch="580", kernel_packages=[IMAGE, MODULES], running_modules=RUNNING)


def ubuntu_offers(kernel: str = "6.8.0-151.151", driver: str = UBUNTU, running: bool = True) -> str:
    return madison(**{
        IMAGE: [kernel], MODULES: [kernel], UTILS: [driver], **({RUNNING: ["6.8.0-149.149+1"]} if running else {})
    })  # fmt: skip


def ubuntu_node(kernel: str = "6.8.0-149.149", state: str = "hi ") -> str:
    return dpkg(
        (state, IMAGE, kernel),
        (state, "linux-image-generic-hwe-24.04", "7.0.0-27.27~24.04.1"),
        ("ii ", "linux-image-6.8.0-149-generic", "6.8.0-149.149"),
        ("ii ", "linux-image-6.8.0-1064-nvidia", "6.8.0-1064.67"),
        (state, MODULES, kernel),
        ("ii ", RUNNING, "6.8.0-149.149+1"),
        (state, UTILS, UBUNTU),
    )


def test_module_packages_of_ubuntu_have_the_kernel_s_version() -> None:
    found = choose("", ubuntu_offers(), ubuntu_plan())
    assert found["install"] == [IMAGE, MODULES, UTILS + "=" + UBUNTU]
    assert found["if_it_fits"] == [RUNNING]
    assert choose("", ubuntu_offers(running=False), ubuntu_plan())["if_it_fits"] == []


def test_kernels_are_held_with_the_driver_whose_modules_follow_them() -> None:
    found = driver_status(ubuntu_node(), ubuntu_plan(), "apt")
    assert found["to_hold"] == [IMAGE, "linux-image-generic-hwe-24.04", MODULES, UTILS]
    assert found["driver"] == [UTILS]
    assert "linux-image-6.8.0-1064-nvidia" not in found["present"]  # a kernel is never removed with the driver
    assert driver_problems(ubuntu_node(), ubuntu_plan(), "apt", hold=True) == []
    (problem,) = driver_problems(ubuntu_node(state="ii "), ubuntu_plan(), "apt", hold=True)
    assert MODULES in problem
    dkms = driver_status(ubuntu_node(), plan(UTILS, branch="580"), "apt")
    assert dkms["to_hold"] == dkms["driver"] == [UTILS]


def test_later_kernels_come_with_an_upgrade_only() -> None:
    assert choose(ubuntu_node(), ubuntu_offers(), ubuntu_plan())["install"] == []
    found = choose(ubuntu_node(), ubuntu_offers(), ubuntu_plan(), upgrade=True)
    assert found["install"] == [IMAGE + "=6.8.0-151.151", MODULES + "=6.8.0-151.151", UTILS + "=" + UBUNTU]
    assert choose(ubuntu_node("6.8.0-151.151"), ubuntu_offers(), ubuntu_plan(), upgrade=True)["install"] == []
    newer = UBUNTU.replace("178", "190")
    wanted = dict(ubuntu_plan(), version="580.190.04")
    found = choose(ubuntu_node(), ubuntu_offers(driver=newer), wanted, own_holds=[UTILS])
    assert found["install"] == [IMAGE + "=6.8.0-151.151", MODULES + "=6.8.0-151.151", UTILS + "=" + newer]


def test_dnf_takes_name_and_version() -> None:
    offers = (
        "nvidia-driver-cuda 3:580.126.20-1.el9\nnvidia-driver-cuda 3:580.105.08-1.el9\nnvidia-driver-cuda 3:590.1.1-1\n"
    )
    found = choose("", offers, plan("nvidia-driver-cuda", branch="580"), "dnf")
    assert found["install"] == ["nvidia-driver-cuda-3:580.126.20-1.el9"]


@pytest.mark.parametrize(
    "locks, in_the_way",
    [
        ("", False),
        ("kernel-0:5.14.0-503.el9.*\nnvidia-driver-cuda-3:580.105.08-1.el9.*", True),
        ("nvidia-driver-cuda-0:580.105.*", True),
        ("nvidia-driver-cuda-*:580.126.20-*", False),
        ("nvidia-driver-cuda-580.*", False),
        ("!nvidia-driver-cuda-3:580.126.20-1.el9.*", True),
        ("!nvidia-driver-cuda-3:580.105.08-1.el9.*", False),
        ("nvidia-driver-cuda-libs-3:580.105.08-1.el9.*", False),
        ("nvidia-container-toolkit-0:1.20.0-1.*\nkernel-0:5.14.0-503.el9.*", False),
    ],
)
def test_what_somebody_else_locks_stands_in_the_way(locks: str, in_the_way: bool) -> None:
    wanted = plan("nvidia-driver-cuda", branch="580")
    if in_the_way:
        message = refusal("", CUDA_RPM, wanted, manager="dnf", locks=locks)
        assert "somebody locks " + locks.splitlines()[-1] in message
        assert "driver 580.126.20" in message
        assert "dnf versionlock delete" in message
    else:
        assert choose("", CUDA_RPM, wanted, "dnf", locks=locks)["version"] == "580.126.20"


def test_a_lock_of_a_library_that_is_there_stands_in_the_way() -> None:
    text = "libnvidia-ml\t3:580.105.08\t1.el9\tx86_64\n"
    wanted = plan("nvidia-driver-cuda", branch="580")
    lock = "libnvidia-ml-3:580.105.08-1.el9.*"
    assert "somebody locks " + lock in refusal(text, CUDA_RPM, wanted, manager="dnf", upgrade=True, locks=lock)


KERNEL_DEVEL = "kernel-devel-5.14.0-503.el9.x86_64"
CUDA_RPM = "nvidia-driver-cuda 3:580.126.20-1.el9 x86_64\n"


def el_plan() -> Data:
    return plan(KERNEL_DEVEL, "nvidia-driver-cuda", branch="580", kernel="5.14.0-503.el9.x86_64", headers=KERNEL_DEVEL)


def test_dnf_offers_the_headers_of_the_kernel_that_runs() -> None:
    offers = "kernel-devel 5.14.0-570.el9 x86_64\nkernel-devel 5.14.0-503.el9 x86_64\n" + CUDA_RPM
    found = choose("", offers, el_plan(), "dnf")
    assert found["install"] == [KERNEL_DEVEL, "nvidia-driver-cuda-3:580.126.20-1.el9"]


def test_headers_that_are_there_need_not_be_offered() -> None:
    text = "kernel-devel\t0:5.14.0\t503.el9\tx86_64\n"
    assert choose(text, CUDA_RPM, el_plan(), "dnf")["version"] == "580.126.20"


@pytest.mark.parametrize(
    "others", ["", "kernel-devel 5.14.0-570.el9 x86_64\n", "kernel-devel 5.14.0-503.el9 aarch64\n"]
)
def test_dnf_offers_headers_of_other_kernels_only(others: str) -> None:
    message = refusal("", others + CUDA_RPM, el_plan(), manager="dnf")
    assert "gpu-1 runs kernel 5.14.0-503.el9.x86_64" in message
    assert "no " + KERNEL_DEVEL in message
    assert "upgrade the kernel and reboot first" in message


def test_apt_offers_headers_of_other_kernels_only() -> None:
    mine = "linux-headers-6.1.0-56-amd64"
    wanted = plan(mine, "linux-headers-amd64", "nvidia-smi", headers=mine)
    offers = OFFERS + madison(linux_headers_amd64=["6.1.170-1"])
    message = refusal("", offers, wanted)
    assert "gpu-1 runs kernel 6.1.0-56-amd64" in message
    assert "upgrade the kernel and reboot first" in message
    found = choose("", offers + " %s | 6.1.170-1 | x\n" % mine, wanted)
    assert found["install"] == [mine, "linux-headers-amd64", "nvidia-smi=" + NEW]


@pytest.mark.parametrize(
    "text, offers, wanted, words",
    [
        ("", "", plan(), ["no driver of branch 535 as a whole", "none of nvidia-smi", "non-free"]),
        ("", OFFERS, plan(branch="550"), ["branch 550", "nvidia-smi as 535.309.01, 535.261.03"]),
        ("", OFFERS, plan(version="535.1.2"), ["535.1.2 cannot be installed as a whole", "535.309.01, 535.261.03"]),
        ("", OFFERS, plan("nvidia-smi", "nvidia-fabricmanager-535"), ["nvidia-fabricmanager-535 is not offered"]),
        ("", OFFERS + madison(libcuda1=["535.1.1-1"]), plan("nvidia-smi", "libcuda1"), ["as a whole", "535.1.1"]),
        ("", OFFERS, plan(minimum_version="535.400.01", minimum_board="H20-96GB"),
         ["H20-96GB needs driver 535.400.01 or later, and 535.309.01 would be"]),
    ],
)  # fmt: skip
def test_what_the_sources_do_not_have_is_told(text: str, offers: str, wanted: Data, words: t.List[str]) -> None:
    message = refusal(text, offers, wanted)
    assert [word for word in words if word not in message] == []


def test_what_somebody_else_holds_stands_in_the_way() -> None:
    text = installed(OLD) + dpkg(("hi ", "libcuda1", OLD))
    message = refusal(text, wanted=plan(version="535.309.01"), own_holds=["nvidia-smi"])
    assert "libcuda1 535.261.03-1" in message
    assert "apt-mark unhold" in message
    assert choose(text, wanted=plan(version="535.309.01"), own_holds=["libcuda1"])["version"] == "535.309.01"
    assert choose(text)["install"] == []


def test_a_broken_package_is_installed_again() -> None:
    text = installed(NEW) + dpkg(("iF ", "nvidia-kernel-dkms", NEW))
    found = choose(text, OFFERS + madison(nvidia_kernel_dkms=[NEW]), plan("nvidia-smi", "nvidia-kernel-dkms"))
    assert found["install"] == ["nvidia-smi=" + NEW, "nvidia-kernel-dkms=" + NEW]


# --- Failure ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "no space"),
        ("dpkg: error: failed to write: No space left on device", "no space"),
        ("E: Held packages were changed and -y was used without --allow-change-held-packages.", "somebody holds"),
        (
            "Failed to validate GPG signature for a-1.rpm: Public key for a-1.rpm is not installed",
            "not signed with the key",
        ),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend.", "Another package manager"),
        ("E: The repository 'http://x ./ Release' is not signed.", "not signed"),
        ("GPG error: http://x InRelease: NO_PUBKEY 0123456789ABCDEF", "not signed"),
        ("Bad return status for module build on kernel: 6.12.117 (x86_64)", "could not be built"),
        ("Error! Build of nvidia.ko failed for: 6.12.117", "could not be built"),
        (
            "Error! Your kernel headers for kernel 5.14.0-570.el9.x86_64 cannot be found at /lib",
            "headers of the kernel",
        ),
        ("The following packages have unmet dependencies:", "do not fit together"),
        ("Problem: nothing provides dkms needed by kmod-nvidia-open-dkms", "do not fit together"),
        ("E: Failed to fetch http://x/y.deb 404 Not Found", "cannot be reached"),
        ("'apt-get install nvidia-kernel-dkms' failed: E: Failed to fetch http://x/y.deb", "cannot be reached"),
        ("E: Failed to fetch http://x/y.deb  File has unexpected size (916 != 918).", "run this again"),
        ("dpkg: something new", "own words"),
    ],
)
def test_causes(text: str, words: str) -> None:
    assert words in driver_failure("Reading package lists...\n" + text)["cause"]


def test_the_last_lines_are_kept() -> None:
    found = driver_failure("\n".join(map(str, range(30))), "make\n\nerror: too few arguments\n", lines=2)
    assert found["output"] == ["28", "29"]
    assert found["build_log"] == ["make", "error: too few arguments"]


def test_several_texts_are_one() -> None:
    found = driver_failure(["Reading", "E: it broke", "Reading\nE: it broke\n"])
    assert found["output"] == ["Reading", "E: it broke"]
