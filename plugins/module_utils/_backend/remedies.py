# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Remedies for the driver's common errors, as used in error messages."""

from __future__ import annotations

import typing as t

from .._mig import codes

REMEDIES: t.Dict[int, str] = {
    codes.NO_PERMISSION: "Run as root (become: true)",
    codes.DRIVER_NOT_LOADED: "The NVIDIA kernel module is not loaded: load it (modprobe nvidia) or install the driver",
    codes.TIMEOUT: "A GPU does not respond: check dmesg for NVRM and Xid messages, and reboot the node",
    codes.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found: install the driver's libraries",
    codes.FUNCTION_NOT_FOUND: "The installed driver is too old for this",
    codes.LIB_RM_VERSION_MISMATCH: (
        "The driver was updated and the old kernel module is still loaded: reboot, or reload the module"
    ),
    codes.GPU_IS_LOST: "The GPU has fallen off the bus: reboot the node, and have the hardware checked if this happens again",
    codes.RESET_REQUIRED: "The GPU needs a reset (nvidia-smi --gpu-reset -i INDEX) or the node a reboot before it works again",
}
# Where another GPU has the place of a known one.
GPU_GONE = "A GPU of this node has disappeared: check it with nvidia-smi -L, then run again"


def remedy(code: int) -> str:
    return REMEDIES.get(code, "")
