# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import table
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.outcome import Outcome, invalid

MAP = ("- GPU 0  A", "+ GPU 0  B")
TEXT = """\
host   GPUs     kept  destroyed  created  needs  result
-----  -------  ----  ---------  -------  -----  -------
one    1x A100  1     0          2        reset  changes
two    1x A100  1     0          2        -      changes
three  ?        ?     ?          ?        -      invalid

Notes:
  two
    a note

Problems:
  three
    wrong
    lines

Maps:
  one, two (2 hosts)
    - GPU 0  A
    + GPU 0  B

Resources of nodes:
  one
    nvidia.com/gpu: 1 -> 0
    x: 0 -> 2
  two
    x: 2

Pods:
  all pods

Not in the inventory any more: four

Hosts: 3 (changes: 2, invalid: 1)"""


def test_hosts_with_the_same_lines_share_them() -> None:
    counts = (1, 0, 2)
    resources = {"nvidia.com/gpu": 0, "x": 2}
    outcomes = [
        Outcome(
            "one",
            "changes",
            "1x A100",
            *counts,
            "reset",
            map=MAP,
            resources=resources,
            resources_before={"nvidia.com/gpu": 1},
        ),
        Outcome(
            "two",
            "changes",
            "1x A100",
            *counts,
            notes=("a note",),
            map=MAP,
            resources={"x": 2},
            resources_before={"x": 2},
        ),
        invalid("three", ["wrong\nlines"]),
    ]
    assert table.text_of(outcomes, ["all pods"], ["four"]) == TEXT


def test_a_line_break_in_the_name_of_a_pod_starts_no_line() -> None:
    text = table.text_of([], ["default/\n\r  all 1 pods have a node (x)"])
    assert "\n\nPods:\n  default/ all 1 pods have a node (x)\n\nHosts:" in text
