# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds of apt and locks of dnf that are not the role's."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import choice, holds
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.apt import Apt
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.choice import Desired, Package, Refusal
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.dnf import Dnf
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.holds import Blocking, VersionTarget
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.manager import Repository, Simulation
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._module.packages.packages_support import (
    OLD,
    desired,
    dpkg,
    installed,
)

NONE: t.Any = None
APT, DNF = (kind(NONE, "nvidia_driver", False, Repository()) for kind in (Apt, Dnf))
Manager = t.Union[Apt, Dnf]


def excluding(
    manager: Manager, foreign_holds: t.List[str], packages: t.List[Package], target: VersionTarget, wanted: Desired
) -> Blocking:
    sharing_version = holds.sharing_version(packages, choice.package_status(packages, wanted), wanted)
    return manager.excluding(foreign_holds, packages, sharing_version, target, wanted)


def refusal(manager: Manager, blocking: Blocking, target: VersionTarget, wanted: Desired) -> str:
    try:
        holds.refuse(manager.hold_words, blocking, target, wanted)
    except Refusal as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "foreign_holds, target, blocking",
    [
        (
            ["libcuda1"],
            VersionTarget("535.309.01", "535"),
            "libcuda1 %s, which blocks driver 535.309.01. Release" % OLD,
        ),
        (["libcuda1"], VersionTarget(None, "580"), "libcuda1 %s, which blocks driver of branch 580. Release" % OLD),
        (["libcuda1", "glx-alternative-nvidia"], VersionTarget("535.309.01"), "libcuda1 %s, which blocks" % OLD),
        (["glx-alternative-nvidia"], VersionTarget("535.309.01", "535"), ""),
        ([], VersionTarget("535.309.01", "535"), ""),
        (["libcuda1"], VersionTarget("535.261.03", "535"), ""),
        (["libcuda1"], VersionTarget(None, "535"), ""),
        (["libcuda1"], VersionTarget(None), ""),
    ],
)
def test_foreign_holds_block(foreign_holds: t.List[str], target: VersionTarget, blocking: str) -> None:
    packages = installed(OLD) + dpkg(("hi ", "libcuda1", OLD), ("hi ", "glx-alternative-nvidia", "1.2.2"))
    message = refusal(APT, excluding(APT, foreign_holds, packages, target, desired()), target, desired())
    assert message.startswith("somebody else holds " + blocking) if blocking else message == ""


def test_a_hold_on_a_package_that_is_not_installed_blocks() -> None:
    blocking = excluding(APT, ["nvidia-smi", "game"], [], VersionTarget("1"), desired())
    assert blocking == {"nvidia-smi, which is not installed": ""}
    message = refusal(APT, blocking, VersionTarget("1"), desired())
    assert message.startswith("somebody else holds nvidia-smi, which is not installed, which blocks driver 1")


@pytest.mark.parametrize(
    "lock, target, blocking",
    [
        ("nvidia-driver-cuda-3:580.105.08-1.el9.*", VersionTarget("580.126.20", "580"), True),
        ("nvidia-driver-cuda-3:580.126.20-1.el9.*", VersionTarget("580.126.20", "580"), False),
        ("nvidia-driver-cuda-580.*", VersionTarget("580.126.20", "580"), False),
        ("!nvidia-driver-cuda-580.126.20", VersionTarget("580.126.20", "580"), True),
        (
            "!nvidia-driver-cuda-0:580.126.20-1.el9.*",
            VersionTarget("580.126.20", "580"),
            False,
        ),  # another release may come
        ("nvidia-driver-cuda-3:570.211.01-1.el9.*", VersionTarget(None, "580"), True),
        ("nvidia-driver-cuda-3:580.105.08-1.el9.*", VersionTarget(None, "580"), False),
        ("nvidia-driver-cuda-*", VersionTarget(None, "580"), False),
        ("!nvidia-driver-cuda-580.126.20", VersionTarget(None, "580"), False),
        ("nvidia-driver-cuda-3:570.211.01-1.el9.*", VersionTarget(None), False),
        ("libnvidia-ml-3:580.105.08-1.el9.*", VersionTarget("580.126.20", "580"), True),
        ("libnvidia-fbc-3:580.105.08-1.el9.*", VersionTarget("580.126.20", "580"), False),
        ("kernel-0:5.14.0-427.el9.*", VersionTarget("580.126.20", "580"), False),
    ],
)
def test_foreign_locks_that_no_version_fits(lock: str, target: VersionTarget, blocking: bool) -> None:
    wanted = desired("nvidia-driver-cuda", branch="580")
    packages = [
        Package("nvidia-driver-cuda", "3:580.105.08-1.el9"),
        Package("libnvidia-ml", "3:580.105.08-1.el9"),
        Package("libnvidia-fbc", "3:535.309.01-1.el9"),
    ]
    message = refusal(DNF, excluding(DNF, [lock], packages, target, wanted), target, wanted)
    words = "somebody else locks %s, which blocks driver %s. Release them (dnf versionlock delete)" % (lock, target)
    keeps = "" if lock.startswith("!") else ", or set nvidia_driver_version to that version"
    assert message == (words + keeps if blocking else "")


@pytest.mark.parametrize(
    "locks, blocking",
    [
        ([], False),
        (["kernel-0:5.14.0-427.el9.*", "nvidia-driver-cuda-3:580.105.08-1.el9.*"], True),
        (["nvidia-driver-cuda-0:580.105.*"], True),
        (["nvidia-driver-cuda-3:580.126.20-2.el9.*"], True),
        (["nvidia-driver-cuda-*:580.126.20-*"], False),
        (["nvidia-driver-cuda-580.126.20"], False),
        (["nvidia-driver-cuda-580.*"], False),
        (["nvidia-driver-cuda-3:580.126.20-1.el9"], False),
        (["!nvidia-driver-cuda-3:580.126.20-1.el9.*"], True),
        (["!nvidia-driver-cuda-580.126.20"], True),
        (["!nvidia-driver-cuda-3:580.105.08-1.el9.*"], False),
        (["nvidia-driver-cuda-libs-3:580.105.08-1.el9.*"], False),
        (["nvidia-container-toolkit-0:1.20.0-1.*", "kernel-0:5.14.0-503.el9.*"], False),
    ],
)
def test_foreign_locks_block(locks: t.List[str], blocking: bool) -> None:
    wanted = desired("nvidia-driver-cuda", branch="580")
    broken = DNF.broken(locks, changing(("nvidia-driver-cuda", "580.126.20-1.el9.x86_64")))
    message = refusal(DNF, broken, VersionTarget("580.126.20"), wanted)
    assert ("somebody else locks " + locks[-1] in message) if blocking else message == ""
    assert ("to that version" in message) == (blocking and not locks[-1].startswith("!"))


def changing(*packages: t.Tuple[str, str]) -> Simulation:
    return Simulation(True, [], [], "", packages)


def test_foreign_locks_of_dependencies_block() -> None:
    packages = [("nvidia-driver-cuda", "580.126.20-1.el9.x86_64"), ("kernel-devel", "5.14.0-503.el9.x86_64")]
    broken = DNF.broken(["kernel-devel-0:5.14.0-427.el9.*"], changing(*packages))
    assert refusal(DNF, broken, VersionTarget("580.126.20"), desired("nvidia-driver-cuda", branch="580")) == (
        "somebody else locks kernel-devel-0:5.14.0-427.el9.*, which blocks driver 580.126.20. "
        "Release them (dnf versionlock delete)"
    )
