# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPUs that are known to support MIG, so that a driver that denies it is not trusted."""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError

if t.TYPE_CHECKING:
    from .._mig.model import Gpu

# PCI device ids of the board files (plugins/plugin_utils/_layout/models), which a node does not have.
DEVICES = frozenset(
    (
        *(0x20B010DE, 0x20B110DE, 0x20F110DE, 0x20F610DE),  # A100-40GB
        *(0x20B210DE, 0x20B510DE, 0x20F310DE, 0x20F510DE),  # A100-80GB
        0x20B710DE,  # A30-24GB
        0x290110DE,  # B200-180GB
        0x318210DE,  # B300
        0x294110DE,  # GB200-186GB
        0x31C210DE,  # GB300
        0x234810DE,  # GH200-144GB
        *(0x20B610DE, 0x233D10DE, 0x234210DE),  # GH200-96GB
        *(0x232210DE, 0x232410DE, 0x233010DE, 0x233110DE),  # H100-80GB
        *(0x232110DE, 0x233A10DE),  # H100-NVL-94GB
        0x232910DE,  # H20-96GB
        *(0x233510DE, 0x233B10DE),  # H200-141GB
        *(0x2BB110DE, 0x2BB410DE, 0x2BB510DE),  # RTX-PRO-6000-Blackwell-96GB
    )
)


def require_mode(gpu: Gpu, call: str) -> None:
    """Raise BackendError if the GPU supports MIG and ``call`` reported no mode. UNKNOWN, because a retry may help."""
    if gpu.mig_capable and gpu.mode_current is None:
        raise BackendError(
            codes.UNKNOWN,
            call,
            "%s (PCI device id 0x%08X) supports MIG, but the driver reports no MIG mode"
            % (gpu.label, gpu.pci_device_id),
            "Run again. If it persists, use a driver, a VBIOS and a display mode with which the GPU supports MIG, "
            "or name only other GPUs in the layout",
        )
