# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slice map, before and after a plan."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import render
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Board, Placement, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import mode_first_plan, plan_gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.render import Cell, Row
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    gpu,
    want,
)

A100 = board("A100-80GB")
RTX = board("RTX-PRO-6000-Blackwell-96GB")
SMALL = ("1g.10gb@0", "1g.10gb@1", "2g.20gb@2", "3g.40gb@4")
UUID = "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"


def a100(*specs: str, **fields: t.Any) -> t.Any:
    return gpu(A100, *specs, **dict({"uuid": UUID, "name": "NVIDIA A100 80GB PCIe"}, **fields))


def test_one_line_per_gpu_and_cells_as_wide_as_placements() -> None:
    rows = [
        render.row(a100(*SMALL)),
        render.row(a100("3g.40gb@0", index=1)),
        render.row(a100(index=2)),
        render.row(a100(index=3, mode_current=False, mode_pending=False)),
        render.row(a100(index=4, name="Tesla T4", mig_capable=False, mode_current=None, mode_pending=None)),
    ]
    assert render.draw(rows) == (
        "GPU 0 GPU-9f0c... A100 80GB PCIe  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb                        |\n"
        "GPU 1 GPU-9f0c... A100 80GB PCIe  |3g.40gb                        |...............................|\n"
        "GPU 2 GPU-9f0c... A100 80GB PCIe  |...............................................................|\n"
        "GPU 3 GPU-9f0c... A100 80GB PCIe  MIG off\n"
        "GPU 4 GPU-9f0c... Tesla T4        no MIG\n"
    )


def test_compute_instances_are_shown_unless_one_fills_the_instance() -> None:
    line = render.draw([render.row(a100("3g.40gb@0=1@2+2@0", "2g.20gb@4=", "1g.10gb@6"))])
    assert line.endswith("  |3g.40gb[2c,1c]                 |2g.20gb[]      |1g.10gb|.......|\n")
    assert "[" not in render.draw([render.row(a100("3g.40gb@0"))])


def test_a_pending_mode_is_shown() -> None:
    assert render.row(a100(mode_current=False, mode_pending=True)).note == "MIG off, on after a reset"
    assert render.row(a100(mode_current=True, mode_pending=False)).note == "MIG on, off after a reset"
    assert render.row(a100("3g.40gb@0", mode_current=True, mode_pending=False)).note == ""


def test_an_instance_of_an_unlisted_profile_is_shown() -> None:
    seen = a100("3g.40gb@0")._replace(board=A100._replace(profiles=()))
    assert "|profile 9 " in render.draw([render.row(seen)])


def test_grids_of_different_boards_are_aligned() -> None:
    rtx = gpu(
        RTX, "2g.48gb@0", "1g.24gb+gfx@6", index=1, uuid=UUID, name="NVIDIA RTX PRO 6000 Blackwell Server Edition"
    )
    lines = render.draw([render.row(a100(*SMALL)), render.row(rtx)]).splitlines()
    assert lines[0].index("|") == lines[1].index("|")
    assert lines[1].endswith("|2g.48gb                      |1g.24gb+gfx   |..............|")
    assert "RTX PRO 6000 Blackwell  |" in lines[1]


@pytest.mark.parametrize("width", [100, 80, 66, 60, 40, 30])
def test_lines_fit_a_narrow_terminal(width: int) -> None:
    rows = [render.row(a100(*SMALL)), render.row(a100("3g.40gb@0=1@2+2@0", "1g.10gb+me@4", index=1))]
    lines = render.draw(rows, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert len({line.index("|") for line in lines}) == 1
    assert [line[:5] for line in lines] == ["GPU 0", "GPU 1"]
    assert len({len(line) for line in lines}) == 1


def test_names_are_shortened_before_they_are_cut() -> None:
    rows = [render.row(a100(*SMALL))]
    assert render.draw(rows, 50) == "GPU 0  |1g  |1g  |2g.20gb  |3g.40gb            |\n"
    assert render.draw(rows, 24) == "GPU 0  |~|~|2g |3g.40gb|\n"


def test_a_diff_changes_only_the_lines_of_gpus_that_change() -> None:
    """The kept GPU's line is equal before and after, regardless of changes of the other one."""
    same = a100(*SMALL, index=1)
    plans = [
        plan_gpu(a100("1g.10gb@0"), want(A100, "1g.10gb+me", "3g.40gb=2+1")),
        plan_gpu(same, want(A100, "1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb")),
    ]
    text = render.plan_diff(plans)
    before, after = text["before"].splitlines(), text["after"].splitlines()
    assert before[1] == after[1]
    assert before[0] != after[0]
    assert "1g.10gb+me" in after[0] and "3g.40gb[2c,1c]" in after[0]


def test_the_diff_of_a_mode_change() -> None:
    off = a100(mode_current=False, mode_pending=False)
    text = render.plan_diff(
        [plan_gpu(off, want(A100, "7g.80gb")), plan_gpu(a100("3g.40gb@4", index=1), Target(False), reset=True)]
    )
    assert text["before"].splitlines()[0].endswith("  MIG off")
    assert "|7g.80gb" in text["after"].splitlines()[0]
    assert "|3g.40gb" in text["before"].splitlines()[1]
    assert text["after"].splitlines()[1].endswith("  MIG off")


def test_the_diff_of_nothing_is_empty() -> None:
    none = a100(name="Tesla T4", mig_capable=False, mode_current=None, mode_pending=None)
    for found in (
        plan_gpu(a100(*SMALL), want(A100, "3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")),
        plan_gpu(none, Target(False)),
    ):
        text = render.plan_diff([found])
        assert text["before"] == text["after"]
    assert render.plan_diff([]) == {"before": "", "after": ""}


def test_compute_instances_that_change_are_in_the_diff() -> None:
    text = render.plan_diff([plan_gpu(a100("3g.40gb@0=1@0"), want(A100, "3g.40gb=2+1"))])
    assert "|3g.40gb[1c] " in text["before"]
    assert "|3g.40gb[2c,1c]" in text["after"]


def test_a_gpu_with_late_profiles() -> None:
    silent = a100(mode_current=False, mode_pending=False, profiles_known=False)
    silent = silent._replace(board=Board("A100", (), 0, 0, 0))
    text = render.plan_diff([mode_first_plan(silent)])
    assert text["after"].endswith("  MIG on, profiles not known yet\n")


@st.composite
def _rows(draw: t.Any) -> t.List[Row]:
    rows = []
    for index in range(draw(st.integers(1, 4))):
        units = draw(st.sampled_from([4, 8, 12]))
        starts = sorted(draw(st.sets(st.integers(0, units - 1))))
        cells = []
        for start, following in zip(starts, starts[1:] + [units]):
            size = draw(st.integers(1, following - start))
            name = draw(st.sampled_from(["1g.10gb", "1g.10gb+me.all", "3g.40gb[2c,1c]", "7g.80gb[]"]))
            cells.append(Cell(Placement(start, size), name))
        rows.append(Row(("GPU %d" % index, "GPU-9f0c...", "A100"), units, tuple(draw(st.permutations(cells)))))
    return rows


@given(_rows(), st.none() | st.integers(20, 200))
def test_every_map_is_aligned(rows: t.List[Row], width: t.Optional[int]) -> None:
    """Bars mark the start and end of placements, and no cell is lost."""
    lines = render.draw(rows, width).splitlines()
    lengths: t.Dict[int, t.Set[int]] = {}
    for row, line in zip(rows, lines):
        grid = line[line.index("|") :]
        unit, rest = divmod(len(grid) - 1, row.units)
        assert rest == 0
        edges = {0, row.units} | set(itertools.chain(*((c.placement.start, c.placement.end) for c in row.cells)))
        assert {position for position, char in enumerate(grid) if char == "|"} == {edge * unit for edge in edges}
        lengths.setdefault(row.units, set()).add(len(line))
        if width is None:
            assert all(cell.text in grid for cell in row.cells)
    assert len(lines) == len(rows)
    assert all(len(found) == 1 for found in lengths.values())
