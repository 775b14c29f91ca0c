# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Draw the GPUs of the facts, or the instances of a layout, as a slice map."""

from __future__ import annotations

from ...module_utils._common.text import short
from ...module_utils._mig import instances, layout
from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.model import Board, Gpu
from ...module_utils._mig.plan import plan_gpu
from ...module_utils._mig.render import Row, draw, label, mode_note, row, row_after
from . import boards, problems, products
from . import gpus as layout_gpus


def of(value: object, board: str | None = None, width: object = None, gpus: object = None) -> str:
    if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
        raise LayoutError("width is %s: give a number of columns, without quotes" % short(width))
    if gpus is not None:
        return draw(_laid_out(layout.parse(value), gpus), width)
    if layout_gpus.is_fact(value):
        value = [value]
    if isinstance(value, (list, tuple)) and value and all(layout_gpus.is_fact(item) for item in value):
        rows = [_row(item, board) for item in value]
    elif board is None:
        raise LayoutError("the input is not a GPU of the facts: for mig_devices, set board, for example 'A100-80GB'")
    else:
        rows = [_planned(value, board)]
    return draw(rows, width)


def _row(fact: layout_gpus.Fact, board: str | None) -> Row:
    """The row of a GPU. An empty GPU needs no board; one that could not be read is shown as unknown."""
    index, mig = fact.get("index"), fact["mig"]
    if index is None:
        return Row(("GPU ?", str(fact.get("pci_bus_id")), str(fact.get("name") or "unknown")), note="no driver")
    unknown = mig.get("capable") is None or (mig["capable"] and mig.get("current") is None)
    if unknown or (mig.get("current") and mig.get("instances") is None):
        called = label(index, str(fact.get("uuid") or ""), str(fact.get("name") or ""))
        return Row(tuple(filter(None, called)), note="unknown" if unknown else "MIG on, instances unknown")
    if not mig.get("current"):
        return row(layout_gpus.from_fact(fact, Board("", (), 0, 0, 0)))
    return row(layout_gpus.from_fact(fact, layout_gpus.board_of(fact, board)))


def _planned(mig_devices: object, name: str) -> Row:
    gpu = layout_gpus.from_board(name)
    return row_after(plan_gpu(gpu, layout_gpus.target(mig_devices, gpu.board)))._replace(label=(gpu.board.model,))


def _laid_out(desired: layout.Layout, gpus: object) -> list[Row]:
    """The rows of GPUs of the facts, or of boards, after the layout is applied to them while they are empty."""
    if not isinstance(gpus, list) or not gpus:
        raise LayoutError("gpus is %s: give ansible_facts.nvidia.gpus, or a list of board names" % short(gpus))
    try:
        found = products.best_match(desired, problems.gpus_of(gpus, identified=True))
    except boards.GeometryError as error:
        return [Row(("GPU ?",), note=str(error))]
    unknown = products.unknown_names(desired, found)
    return [_laid_out_gpu(products.applicable_entry(desired, gpu), gpu, bool(unknown)) for gpu in found]


def _laid_out_gpu(entry: layout.Entry | None, gpu: Gpu, named_by_id: bool) -> Row:
    of_board = isinstance(gpu, layout_gpus.BoardGpu)
    name = tuple(filter(None, label(gpu.index, gpu.uuid, gpu.board.model if of_board else gpu.name)))
    if named_by_id and of_board:
        return Row(name, note="unknown: the layout names GPUs by UUID or PCI bus id")
    if entry is None:
        return Row(name, note="not in the layout")
    if not entry.enabled:
        return Row(name, note=mode_note(gpu.mig_capable, False, False))
    if gpu.mig_capable and not gpu.board.profiles:
        return Row(name, note="MIG on, board not known")
    return row_after(plan_gpu(gpu, instances.resolve(entry.items, gpu.board)))._replace(label=name)
