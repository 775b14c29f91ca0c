# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Names that all backends must produce identically."""

from __future__ import annotations

import contextlib

from .._mig.model import ATTRIBUTES, PLAIN


def profile_name(name: str) -> str:
    """The engine's name for ``MIG 3g.40gb``."""
    return name[4:] if name.startswith("MIG ") else name


def computed_profile_name(constant: int, slices: int, memory_mib: int, gpu_memory_mib: int) -> str:
    """The name for drivers too old to report it. Its memory is in eighths of the GPU's memory, rounded up."""
    eighths = max(1, -(-8 * memory_mib // gpu_memory_mib)) if gpu_memory_mib else 0
    gib = round(round(gpu_memory_mib / 1024.0) * eighths / 8.0)
    return "%dg.%dgb%s" % (slices, gib, ATTRIBUTES.get(constant, PLAIN))


def process_name(pid: int) -> str:
    """The kernel's name of a process, if the driver does not report one; empty if the process has exited."""
    with contextlib.suppress(OSError):
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    return ""
