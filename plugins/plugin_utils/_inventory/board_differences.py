# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare the boards that an inventory names with the GPUs of a node."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import short
from ...module_utils._mig.messages import listed_indices
from .._common.refusal import Refusal
from .._layout import boards as layout_boards
from .._layout import gpus as layout_gpus


def inventory_differences(values: t.Mapping[str, t.Any], gpus: object) -> list[str]:
    """Those of gpu_node_boards. The GPUs of the facts are null if they cannot be read."""
    boards = values.get("gpu_node_boards")
    if not boards or not isinstance(boards, (list, tuple)) or not isinstance(gpus, (list, tuple)):
        return []
    remedy = "%s in gpu_node_boards: correct the inventory, or search dmesg for NVRM"
    return [remedy % problem for problem in gpu_differences(gpus, boards)]


def gpu_differences(gpus: object, boards: object) -> list[str]:
    """Differences between the boards and the GPUs that the driver lists, or else those on the PCI bus."""
    if not isinstance(gpus, (list, tuple)) or not all(_is_listed(gpu) for gpu in gpus):
        raise Refusal("the GPUs are %s: give ansible_facts.nvidia.gpus" % short(gpus))
    if not isinstance(boards, (list, tuple)):
        raise Refusal("boards is %s: give a list of board names" % short(boards))
    seen = sorted((gpu for gpu in gpus if gpu.get("index") is not None), key=lambda gpu: t.cast(int, gpu["index"]))
    where = "driver"
    if gpus and not seen:
        seen, where = sorted(gpus, key=lambda gpu: str(gpu.get("pci_bus_id"))), "PCI bus"
    if len(seen) != len(boards):
        return ["the %s shows %d GPUs, and %d boards are named" % (where, len(seen), len(boards))]
    problems = []
    other: dict[tuple[str | None, object], list[int]] = {}  # the GPUs, by their board and the declared one
    for number, (gpu, name) in enumerate(zip(seen, boards, strict=True)):
        try:
            model = layout_boards.data(name)["model"]
        except layout_boards.BoardError as error:
            problems.append(str(error))
            continue
        found = _model_of(gpu)
        if found not in (None, model):
            other.setdefault((found, name), []).append(number)
    for (found, name), places in other.items():
        # Without UUIDs, nodes with the same problem share one message.
        called = "GPU %d %s is" % (places[0], seen[places[0]].get("pci_bus_id"))
        called = called if len(places) == 1 else "GPUs %s are" % listed_indices(places)
        problems.append("%s %s, and %s is named" % (called, found, name))
    return list(dict.fromkeys(problems))


def _is_listed(gpu: object) -> bool:
    return isinstance(gpu, dict) and isinstance(gpu.get("index"), (int, type(None)))


def _model_of(gpu: layout_gpus.Fact) -> str | None:
    """The model, or None if the board is unknown and any name is accepted."""
    try:
        return str(layout_boards.data(str(gpu.get("pci_device_id")))["model"])
    except layout_boards.BoardError:
        return None
