# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds of apt and locks of dnf that are not the role's."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import choice, holds
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.choice import Package, Refusal
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.holds import Target

from .test_packages_choice import OLD, desired, dpkg, installed


@pytest.mark.parametrize(
    "own, target, blocking",
    [
        (["nvidia-smi"], Target("535.309.01", "535"), "libcuda1 %s, which blocks driver 535.309.01. Release" % OLD),
        (["nvidia-smi"], Target(None, "580"), "libcuda1 %s, which blocks driver of branch 580. Release" % OLD),
        (["libcuda1"], Target("535.309.01", "535"), ""),
        ([], Target("535.261.03", "535"), ""),
        ([], Target(None, "535"), ""),
        ([], Target(None), ""),
    ],
)
def test_foreign_holds_block(own: t.List[str], target: Target, blocking: str) -> None:
    packages = installed(OLD) + dpkg(("hi ", "libcuda1", OLD), ("hi ", "glx-alternative-nvidia", "1.2.2"))
    now = choice.status(packages, desired())
    try:
        holds.refuse_held(packages, ["libcuda1"], now, target, own, desired())
        message = ""
    except Refusal as error:
        message = str(error)
    assert message.startswith("somebody else holds " + blocking) if blocking else message == ""


def test_a_hold_on_a_package_that_is_not_installed_blocks() -> None:
    now = choice.status([], desired())
    with pytest.raises(Refusal, match="somebody else holds nvidia-smi, which is not installed, which blocks driver 1"):
        holds.refuse_held([], ["nvidia-smi", "game"], now, Target("1"), [], desired())
    holds.refuse_held([], ["nvidia-smi", "game"], now, Target("1"), ["nvidia-smi"], desired())


@pytest.mark.parametrize(
    "lock, target, blocking",
    [
        ("nvidia-driver-cuda-3:580.105.08-1.el9.*", Target("580.126.20", "580"), True),
        ("nvidia-driver-cuda-3:580.126.20-1.el9.*", Target("580.126.20", "580"), False),
        ("nvidia-driver-cuda-580.*", Target("580.126.20", "580"), False),
        ("!nvidia-driver-cuda-580.126.20", Target("580.126.20", "580"), True),
        ("!nvidia-driver-cuda-0:580.126.20-1.el9.*", Target("580.126.20", "580"), False),  # another release may come
        ("nvidia-driver-cuda-3:570.211.01-1.el9.*", Target(None, "580"), True),
        ("nvidia-driver-cuda-3:580.105.08-1.el9.*", Target(None, "580"), False),
        ("nvidia-driver-cuda-*", Target(None, "580"), False),
        ("!nvidia-driver-cuda-580.126.20", Target(None, "580"), False),
        ("nvidia-driver-cuda-3:570.211.01-1.el9.*", Target(None), False),
        ("libnvidia-ml-3:580.105.08-1.el9.*", Target("580.126.20", "580"), True),
        ("libnvidia-fbc-3:580.105.08-1.el9.*", Target("580.126.20", "580"), False),
        ("kernel-0:5.14.0-427.el9.*", Target("580.126.20", "580"), False),
    ],
)
def test_foreign_locks_that_no_version_fits(lock: str, target: Target, blocking: bool) -> None:
    wanted = desired("nvidia-driver-cuda", branch="580")
    packages = [
        Package("nvidia-driver-cuda", "3:580.105.08-1.el9"),
        Package("libnvidia-ml", "3:580.105.08-1.el9"),
        Package("libnvidia-fbc", "3:535.309.01-1.el9"),
    ]
    now = choice.status(packages, wanted)
    if not blocking:
        holds.refuse_known_locks([lock], packages, now, target, wanted)
        return
    with pytest.raises(Refusal) as caught:
        holds.refuse_known_locks([lock], packages, now, target, wanted)
    assert str(caught.value).startswith("somebody else locks %s, which blocks driver " % lock)
    assert str(caught.value).endswith("(dnf versionlock delete), or set nvidia_driver_version to that version")


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
    changed = [("nvidia-driver-cuda", "580.126.20-1.el9.x86_64")]
    if not blocking:
        holds.refuse_locks(locks, changed, "580.126.20", wanted)
        return
    with pytest.raises(Refusal) as caught:
        holds.refuse_locks(locks, changed, "580.126.20", wanted)
    assert "somebody else locks " + locks[-1] in str(caught.value)
    assert "blocks driver 580.126.20" in str(caught.value)
    assert "(dnf versionlock delete), or set nvidia_driver_version" in str(caught.value)


def test_foreign_locks_of_dependencies_block() -> None:
    wanted = desired("nvidia-driver-cuda", branch="580")
    changed = [("nvidia-driver-cuda", "580.126.20-1.el9.x86_64"), ("kernel-devel", "5.14.0-503.el9.x86_64")]
    with pytest.raises(Refusal) as caught:
        holds.refuse_locks(["kernel-devel-0:5.14.0-427.el9.*"], changed, "580.126.20", wanted)
    assert str(caught.value) == (
        "somebody else locks kernel-devel-0:5.14.0-427.el9.*, which blocks driver 580.126.20. "
        "Release them (dnf versionlock delete)"
    )
