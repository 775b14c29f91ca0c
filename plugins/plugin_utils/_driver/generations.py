# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Driver requirements of GPU generations. The PCI device id identifies the generation before a driver is installed."""

from __future__ import annotations

import typing as t

from .._common.refusal import Refusal

OPEN = "open"
PROPRIETARY = "proprietary"


class Generation(t.NamedTuple):
    name: str
    first: int  # PCI device ids, both included
    last: int
    modules: t.Tuple[str, ...]
    oldest_branch: int = 0
    newest_branch: t.Optional[int] = None


# Grace Hopper is listed before the range that includes it.
GENERATIONS = (
    Generation("Kepler or older", 0x0000, 0x133F, ()),
    Generation("Maxwell, Pascal or Volta", 0x1340, 0x1DFF, (PROPRIETARY,), newest_branch=580),
    Generation("Grace Hopper", 0x2340, 0x234F, (OPEN,)),
    Generation("Turing, Ampere, Ada or Hopper", 0x1E00, 0x28FF, (OPEN, PROPRIETARY)),
    Generation("Blackwell", 0x2900, 0x2FFF, (OPEN,), oldest_branch=570),
    Generation("Blackwell Ultra", 0x3180, 0x31FF, (OPEN,), oldest_branch=580),
)
_LATER = Generation("a generation later than any known here", 0x3000, 0xFFFF, (OPEN,))


class GpuWithGeneration(t.NamedTuple):
    """One GPU of the node, with its name for messages."""

    title: str
    generation: Generation


def generation(pci_device_id: str) -> Generation:
    """The generation of a device such as ``0x20B510DE``, the format of facts and board files."""
    device = int(pci_device_id, 16) >> 16
    return next((each for each in GENERATIONS if each.first <= device <= each.last), _LATER)


def supporting_modules(found: t.Sequence[GpuWithGeneration]) -> t.Tuple[str, ...]:
    """The kernel modules that support all of these GPUs, in order of preference."""
    for gpu in found:
        if not gpu.generation.modules:
            raise Refusal(
                "%s is of generation %s, which no driver of branch 515 or later supports; remove it from the node"
                % (gpu.title, gpu.generation.name)
            )
    common = tuple(each for each in (OPEN, PROPRIETARY) if all(each in gpu.generation.modules for gpu in found))
    if not common:
        raise Refusal(
            "no kernel module supports all GPUs of the node: "
            + "; ".join(
                "%s (%s) needs the %s one" % (gpu.title, gpu.generation.name, gpu.generation.modules[0])
                for gpu in found
                if len(gpu.generation.modules) == 1
            )
            + "; remove one kind from the node"
        )
    return common


def check_branch(found: t.Sequence[GpuWithGeneration], branch: int) -> None:
    for gpu in found:
        oldest, newest = gpu.generation.oldest_branch, gpu.generation.newest_branch
        if branch < oldest:
            raise Refusal(
                "%s (%s) needs branch %d or later, and branch %d would be installed; set nvidia_driver_branch"
                % (gpu.title, gpu.generation.name, oldest, branch)
            )
        if newest is not None and branch > newest:
            raise Refusal(
                "%s (%s) is supported by branches up to %d only, and branch %d would be installed; set nvidia_driver_branch"
                % (gpu.title, gpu.generation.name, newest, branch)
            )
