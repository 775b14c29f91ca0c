# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU architectures, and properties derived from them if the driver does not report these."""

from __future__ import annotations

import typing as t

# NVML_DEVICE_ARCH_*
NAMES: t.Dict[int, str] = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_BY_CAPABILITY: t.Dict[str, str] = {
    "8.0": "ampere",
    "8.9": "ada",
    "9.": "hopper",
    "10.": "blackwell",
    "12.": "blackwell",
}
_WITHOUT_MIG = {"kepler", "maxwell", "pascal", "volta", "turing", "ada"}


def of_capability(compute_capability: t.Optional[str]) -> t.Optional[str]:
    """The architecture by compute capability, for driver tools that are older than the GPU and do not name it."""
    for start, name in _BY_CAPABILITY.items():
        if compute_capability is not None and compute_capability.startswith(start):
            return name
    return None


def resetless(architecture: t.Optional[str]) -> t.Optional[bool]:
    """Whether MIG mode changes need no reset. Only Ampere needs one."""
    if architecture not in NAMES.values() or architecture in _WITHOUT_MIG:
        return None
    return architecture != "ampere"
