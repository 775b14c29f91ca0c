# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of a node, and desired packages of the driver."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import apt
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.choice import Desired, Package

OLD, NEW = "535.261.03-1", "535.309.01-0+deb12u1"
PLANNED = ("nvidia-smi", "libnvidia-ml1", "nvidia-persistenced")
FAMILY = ["*nvidia*", "libcuda*", "cuda-drivers*", "libnv*", "!*container*", "!linux-*", "linux-modules-nvidia-*"]


def desired(*packages: str, branch: str = "535", **more: t.Any) -> Desired:
    return Desired(
        "nvidia_driver", packages or PLANNED, branch=branch, family=FAMILY, independent=["nvidia-persistenced"], **more
    )


def dpkg(*rows: t.Tuple[str, str, str]) -> t.List[Package]:
    return apt.parse("".join("%s\t%s\t%s\n" % row for row in rows))


def installed(version: str, state: str = "ii ") -> t.List[Package]:
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
