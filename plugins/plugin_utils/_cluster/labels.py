# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Labels of nodes that the GPU operator and GPU feature discovery write, or read."""

from __future__ import annotations

PRESENT = "nvidia.com/gpu.present"
PRODUCT = "nvidia.com/gpu.product"
STRATEGY = "nvidia.com/mig.strategy"
DEPLOY = "nvidia.com/gpu.deploy."  # before the name of a component, which runs on the node if the value is true
PAUSED = "paused-for-mig-change"  # a value that the operator respects, as its MIG manager writes it


def is_paused(value: str) -> bool:
    """Whether a component is paused. Each program that does so has its own value."""
    return value.startswith("paused-")
