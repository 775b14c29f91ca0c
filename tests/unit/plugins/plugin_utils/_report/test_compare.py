# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has changed between two reports."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import compare, page
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.totals import maps, totals
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import (
    INSTANCES,
    process,
    read,
    report,
    state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, gpu, instance

DOWN = {"unreachable": True, "msg": "timed out"}


def changes(before, after, **variables):
    """Of one host, from two results of node_state."""
    reports = [report(read("gpu1", result, **variables)) for result in (before, after)]
    return [(each.kind, each.gpu, each.text) for each in compare.changes(*reports)]


def test_equal_reports_have_no_changes_and_processes_are_none():
    busy = state(gpu(0, *INSTANCES, processes=[process(7, 2)]))
    assert changes(state(), state()) == changes(state(), busy) == []


def test_hosts_that_were_added_removed_lost_or_found():
    both = report(read("a"), read("b"))
    found = compare.changes(report(read("a"), read("c")), both)
    assert [(each.host, each.text) for each in found] == [("b", "it was added"), ("c", "it was removed")]
    assert changes(state(), DOWN) == [("problem", None, "it cannot be reached")]
    assert changes(DOWN, state()) == [
        ("host", None, "it can be read again"),
        ("resolved", None, "it cannot be reached"),
    ]
    assert changes(DOWN, {**DOWN, "msg": "broken pipe"}) == []


def test_versions():
    nvidia = {"driver": {"version": "590.1", "problem": None}}
    assert changes(state(), state(nvidia=nvidia)) == [("driver", None, "from 580.95.05 to 590.1")]
    missing = state(toolkit={"version": None, "problem": "nvidia-ctk is not installed"})
    assert changes(missing, state()) == [("toolkit", None, "from not installed to 1.20.1")]
    broken = state(toolkit={"version": None, "problem": "nvidia-ctk --version: Illegal instruction"})
    assert changes(state(), broken) == [("toolkit", None, "from 1.20.1 to unknown")]


def test_gpus_instances_and_modes():
    variables = {"nvidia_mig_layout": None}
    first, *rest = INSTANCES
    fewer = state(gpu(0, *rest, instance(9, "2g.20gb", 4, 2)))
    assert changes(state(), fewer, **variables) == [
        ("instances", 0, "3g.40gb at 4:4 was destroyed"),
        ("instances", 0, "2g.20gb at 4:2 was created"),
    ]
    again = {**first, "compute_instances": [{**first["compute_instances"][0], "uuid": "MIG-other"}]}
    assert changes(state(), state(gpu(0, again, *rest)), **variables) == [
        ("instances", 0, "3g.40gb at 4:4 has another UUID")
    ]
    assert changes(state(), state(gpu(0, current=False)), **variables) == [("instances", 0, "MIG mode from on to off")]
    two = state(gpu(0, *INSTANCES), gpu(1, *INSTANCES))
    ((kind, index, text),) = changes(state(), two, **variables)
    assert (kind, index, text) == (
        "gpu",
        1,
        "NVIDIA A100 80GB PCIe GPU-gpu1-00012222-3333-4444-5555-666666666666 was added",
    )
    assert changes(two, state(), **variables)[0][2].endswith("was removed")


def test_a_gpu_that_became_unreadable_is_a_problem_and_no_loss_of_instances():
    two = state(gpu(0, *INSTANCES), gpu(1, *INSTANCES))
    ((kind, index, text),) = changes(two, state(gpu(0, *INSTANCES), LOST))
    assert (kind, index) == ("problem", 1)
    assert "GPU_IS_LOST" in text


def test_a_gpu_with_another_index_is_the_same():
    moved = gpu(0, *INSTANCES)
    assert changes(state(moved), state({**moved, "index": 1})) == []


def test_problems_are_found_and_resolved():
    off = state(gpu(0, current=False))
    kinds = {kind: text for kind, _gpu, text in changes(off, state())}
    assert kinds["resolved"].startswith("to match nvidia_mig_layout: turn MIG mode on")
    assert [kind for kind, _gpu, _text in changes(state(), off)] == ["instances", "problem"]


def test_the_page_shows_changes_since_the_former_report():
    before, after = report(read("a"), read("c")), report(read("a"), read("b"))
    gpus = maps(after)

    def render(previous):
        return page.render(after, gpus, totals(after, gpus), previous, "report.json")

    html = render(before._replace(created="2026-11-01T00:00:00Z"))
    assert "Changes since 2026-11-01 00:00:00 UTC" in html
    assert html.count("it was added") == html.count("it was removed") == 1
    assert "Nothing has changed" in render(after)
    assert "Changes since" not in render(None)
    assert set(page.CHANGES) >= {each.kind for each in compare.changes(before, after)}
