# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.


"""Slice maps, one line per GPU.

    GPU 0 GPU-9f0c... A100-SXM4-80GB  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb[2c,1c]                 |

The width of a cell is that of its placement. Brackets list the compute instances, unless
there is a single one with all multiprocessors; empty brackets mean none. Dots are free
space. The text depends only on the state shown, so equal states give equal text.
"""

from __future__ import annotations

import re
import typing as t

from .model import DesiredInstance, Gpu, GpuInstance, Placement

if t.TYPE_CHECKING:
    from .operations import Plan

_MIN_UNIT_WIDTH = 2  # columns of a grid unit, its bar included
_DEFAULT_WIDTH = 64  # columns of a grid, more if names need it, so that maps of different boards and times look alike
_MAX_PRODUCT_LENGTH = 22


class Cell(t.NamedTuple):
    """One GPU instance on the map."""

    placement: Placement
    text: str


class Row(t.NamedTuple):
    """One line of the map. A ``note`` replaces the cells, a ``remark`` follows them."""

    label: t.Tuple[str, ...]  # most important part first; the last ones are dropped on a narrow terminal
    units: int = 0
    cells: t.Tuple[Cell, ...] = ()
    note: str = ""
    remark: str = ""


def label(index: int, uuid: str, name: str) -> t.Tuple[str, ...]:
    """The label of a GPU on the map. Long product names are cut; the index identifies the GPU."""
    product = name[len("NVIDIA ") :] if name.startswith("NVIDIA ") else name
    return ("GPU %d" % index, uuid[:8] + "..." if len(uuid) > 11 else uuid, product[:_MAX_PRODUCT_LENGTH].rstrip())


def cell_text(profile: str, slices: int, compute_instances: t.Sequence[int], reduced: bool = False) -> str:
    """A GPU instance by its profile and the slices of its compute instances."""
    if tuple(compute_instances) == (slices,) and not reduced:
        return profile
    return "%s[%s]" % (profile, ",".join("%dc" % size for size in sorted(compute_instances, reverse=True)))


def mode_note(capable: bool, current: t.Optional[bool], pending: t.Optional[bool]) -> str:
    """The note that replaces the cells; empty if MIG is on and stays on."""
    if not capable:
        return "no MIG"
    if not current:
        return "MIG off, on after a reset" if pending else "MIG off"
    return "MIG on, off after a reset" if pending is False else ""


def row(gpu: Gpu) -> Row:
    """The current state of a GPU."""
    note = mode_note(gpu.mig_capable, gpu.mode_current, gpu.mode_pending)
    cells = tuple(Cell(gi.placement, _existing_text(gpu, gi)) for gi in gpu.instances)
    if cells:  # a pending mode change does not affect them
        note = ""
    return Row(label(gpu.index, gpu.uuid, gpu.name), gpu.board.memory_units, cells, note)


def row_after(plan: Plan) -> Row:
    """The state of a GPU after its plan."""
    gpu = plan.gpu
    if plan.blocked is not None:
        return row(gpu)
    name = label(gpu.index, gpu.uuid, gpu.name)
    if not plan.target.enabled:
        return Row(name, note=mode_note(gpu.mig_capable, False, False))
    if not gpu.profiles_known:
        return Row(name, note="MIG on, profiles not known yet")
    cells = [Cell(kept.instance.placement, _desired_text(kept.desired)) for kept in plan.kept]
    cells.extend(Cell(new.placement, _desired_text(new.desired)) for new in plan.created)
    return Row(name, gpu.board.memory_units, tuple(cells))


def draw(rows: t.Sequence[Row], width: t.Optional[int] = None) -> str:
    """The map, one line per row. ``width`` is that of the terminal; without it names are not shortened."""
    return _Scale(rows, width).draw(rows)


def diff(before: t.Sequence[Row], after: t.Sequence[Row]) -> t.Dict[str, str]:
    """Two maps with the same scale, for Ansible's diff: lines differ only if the GPUs do."""
    scale = _Scale([*before, *after], None)
    return {"before": scale.draw(before), "after": scale.draw(after)}


def plan_diff(plans: t.Sequence[Plan]) -> t.Dict[str, str]:
    """The diff of the plans."""
    return diff([row(plan.gpu) for plan in plans], [row_after(plan) for plan in plans])


def _desired_text(desired: DesiredInstance) -> str:
    return cell_text(desired.profile.name, desired.profile.slices, desired.slices, desired.reduced)


def _existing_text(gpu: Gpu, gi: GpuInstance) -> str:
    profile = gpu.listed_profile(gi.profile_id)
    if profile is None:
        return gpu.profile_name(gi.profile_id)
    slices = [ci.slices for ci in gi.compute_instances]
    return cell_text(profile.name, profile.slices, slices, any(ci.reduced for ci in gi.compute_instances))


class _Scale:
    """The scale of a map: the columns of the labels, and of a unit on each grid."""

    def __init__(self, rows: t.Sequence[Row], width: t.Optional[int]) -> None:
        self._parts = max((len(row.label) for row in rows), default=0)
        self._columns = self._label_columns(rows)
        self._unit = {units: _unit(rows, units) for units in {row.units for row in rows if row.units}}
        if width is not None:
            while self._parts > 1 and self._total() > width:
                self._parts -= 1
                self._columns = self._label_columns(rows)
            room = max(0, width - self._columns - 3)
            self._unit = {
                units: max(_MIN_UNIT_WIDTH, min(columns, room // units)) for units, columns in self._unit.items()
            }

    def draw(self, rows: t.Sequence[Row]) -> str:
        return "".join("%s\n" % line for line in map(self._line, rows))

    def _line(self, row: Row) -> str:
        name = self._label(row).ljust(self._columns)
        if row.note:
            line = ("%s  %s" % (name, row.note)).strip()
        else:
            line = "%s  %s" % (name, _cells(row, self._unit[row.units]) if row.units else "no grid")
        return "%s  %s" % (line, row.remark) if row.remark else line

    def _label(self, row: Row) -> str:
        return " ".join(row.label[: self._parts])

    def _label_columns(self, rows: t.Sequence[Row]) -> int:
        return max((len(self._label(row)) for row in rows), default=0)

    def _total(self) -> int:
        return self._columns + 3 + max((units * columns for units, columns in self._unit.items()), default=0)


def _unit(rows: t.Iterable[Row], units: int) -> int:
    """Columns of a unit such that every name on this grid fits into its cell, next to the bar."""
    cells = (cell for row in rows if row.units == units for cell in row.cells)
    needed = (-(-(len(cell.text) + 1) // cell.placement.size) for cell in cells)
    return max(_MIN_UNIT_WIDTH, _DEFAULT_WIDTH // units, *needed)


def _cells(row: Row, unit: int) -> str:
    out = ["|"]
    at = 0
    for cell in sorted(row.cells):
        if cell.placement.start > at:
            out.append("." * (unit * (cell.placement.start - at) - 1) + "|")
        room = unit * cell.placement.size - 1
        out.append(_shorten(cell.text, room).ljust(room) + "|")
        at = cell.placement.end
    if at < row.units:
        out.append("." * (unit * (row.units - at) - 1) + "|")
    return "".join(out)


def _shorten(text: str, room: int) -> str:
    """The text of a cell in ``room`` columns: first without the memory, then cut."""
    if len(text) <= room:
        return text
    text = re.sub(r"\.[0-9]+gb", "", text)
    return text if len(text) <= room else text[: max(0, room - 1)] + "~"
