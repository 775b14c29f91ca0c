# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded session on a real A100 80GB PCIe with driver 515.86.01, repeated on a simulated one."""

from __future__ import annotations

import pytest

from .support import SIMULATOR, MakeNode, Node, Smi, data

RECORDED = SIMULATOR / "nvsim" / "recorded" / "a100-80gb-pcie.yml"


@pytest.fixture
def recorded(make_node: MakeNode, smi: Smi) -> Node:
    node = make_node("--board", "A100-PCIE-80GB", "--driver", "515.86.01", "--recorded", str(RECORDED))
    smi.ok(node, "-mig", "1")
    return node


def test_profile_table(recorded: Node, smi: Smi) -> None:
    assert smi.ok(recorded, "mig", "-i", "0", "-lgip") == data("profiles.txt")


@pytest.mark.parametrize(
    ("profiles", "layout"),
    [("19,19,19,19,19,19,19", "seven"), ("9,14,19", "three")],
    ids=["seven instances", "three sizes"],
)
def test_instances_have_the_recorded_ids_and_uuids(recorded: Node, smi: Smi, profiles: str, layout: str) -> None:
    assert smi.ok(recorded, "mig", "-cgi", profiles, "-C") == data("created_%s.txt" % layout)
    assert smi.ok(recorded, "-L") == data("listed_%s.txt" % layout)


def test_an_instance_has_the_same_uuid_in_both_layouts(recorded: Node, smi: Smi) -> None:
    smi.ok(recorded, "mig", "-cgi", "19,19,19,19,19,19,19", "-C")
    smi.ok(recorded, "mig", "-dci")
    smi.ok(recorded, "mig", "-dgi")
    smi.ok(recorded, "mig", "-cgi", "9,14,19", "-C")
    assert smi.ok(recorded, "-L") == data("listed_three.txt")


def test_an_idle_gpu_has_the_recorded_power_draw(recorded: Node, smi: Smi) -> None:
    """39C, 75 of 300 W, no memory used, no utilization with MIG mode enabled; 33C and 41 W with it disabled."""
    question = ("--query-gpu=temperature.gpu,power.draw,power.limit,memory.used,memory.total,utilization.gpu",)
    answer = smi.ok(recorded, *question, "--format=csv,noheader")
    assert answer == "39, 75.00 W, 300.00 W, 0 MiB, 81920 MiB, [N/A]\n"
    smi.ok(recorded, "-mig", "0")
    answer = smi.ok(recorded, *question, "--format=csv,noheader")
    assert answer == "33, 41.10 W, 300.00 W, 0 MiB, 81920 MiB, 0 %\n"
