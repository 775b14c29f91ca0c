# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating, listing and destroying instances with the real nvidia-smi: output and errors."""

from __future__ import annotations

import re

import pytest

from .support import MakeNode, Node, Sleeper, Smi

NOT_ROOT = 1000
INVALID, NO_PERMISSION, NOT_FOUND, IN_USE, INSUFFICIENT_RESOURCES = 2, 4, 6, 19, 23


@pytest.fixture
def node(make_node: MakeNode, smi: Smi) -> Node:
    """Two A100 40GB with MIG mode enabled."""
    node = make_node("--board", "A100-40GB", "--gpus", "2", "--driver", smi.version)
    smi.ok(node, "-mig", "1")
    return node


def gpu_instances(node: Node, gpu: int = 0) -> list[tuple[int, str, str]]:
    """Return id, profile and placement from the state."""
    found = node.show()["gpus"][gpu]["gpu_instances"]
    return sorted((gi["id"], gi["profile"], "%d:%d" % (gi["start"], gi["size"])) for gi in found)


def compute_instances(node: Node, gpu: int = 0) -> list[tuple[int, int, str, str]]:
    """Return GPU instance, id, profile and placement from the state."""
    return sorted(
        (gi["id"], ci["id"], ci["profile"], "%d:%d" % (ci["start"], ci["size"]))
        for gi in node.show()["gpus"][gpu]["gpu_instances"]
        for ci in gi["compute_instances"]
    )


def rows(table: str) -> list[list[str]]:
    """Return the cells of an nvidia-smi table, without rules and headings."""
    body = table.split("=|\n", 1)[1]
    return [line.strip("| \n").split() for line in body.splitlines() if line.startswith("|")]


def test_all_existing_instances_are_listed(node: Node, smi: Smi) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4,14:0", "-C")
    smi.ok(node, "mig", "-i", "1", "-cgi", "1g.5gb+me:6")
    listed = rows(smi.ok(node, "mig", "-lgi"))
    assert sorted(listed) == [
        ["0", "MIG", "2g.10gb", "14", "5", "0:2"],
        ["0", "MIG", "3g.20gb", "9", "1", "4:4"],
        ["1", "MIG", "1g.5gb+me", "20", "9", "6:1"],
    ]
    assert gpu_instances(node) == [(1, "3g.20gb", "4:4"), (5, "2g.10gb", "0:2")]
    assert gpu_instances(node, 1) == [(9, "1g.5gb+me", "6:1")]
    listed = rows(smi.ok(node, "mig", "-i", "0", "-lci"))
    assert sorted(listed) == [
        ["0", "1", "MIG", "3g.20gb", "2", "0", "0:3"],
        ["0", "5", "MIG", "2g.10gb", "1", "0", "0:2"],
    ]
    result = smi(node, "mig", "-i", "1", "-lci")
    assert (result.returncode, result.stdout) == (NOT_FOUND, "No compute instances found: Not Found\n")


def test_possible_placements(node: Node, smi: Smi) -> None:
    assert smi.ok(node, "mig", "-i", "1", "-lgipp") == (
        "GPU  1 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\n"
        "GPU  1 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1\n"
        "GPU  1 Profile ID 15 Placements: {0,2,4,6}:2\n"
        "GPU  1 Profile ID 14 Placements: {0,2,4}:2\n"
        "GPU  1 Profile ID  9 Placements: {0,4}:4\n"
        "GPU  1 Profile ID  5 Placement : {0}:4\n"
        "GPU  1 Profile ID  0 Placement : {0}:8\n"
    )


def test_free_counts_decrease_as_instances_are_created(node: Node, smi: Smi) -> None:
    def free() -> dict[str, str]:
        return dict(re.findall(r"MIG (\S+) +\d+ +(\d/\d) ", smi.ok(node, "mig", "-i", "0", "-lgip")))

    assert free() == {
        "1g.5gb": "7/7", "1g.5gb+me": "1/1", "1g.10gb": "4/4", "2g.10gb": "3/3", "3g.20gb": "2/2", "4g.20gb": "1/1",
        "7g.40gb": "1/1",
    }  # fmt: skip
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:0")
    assert free() == {
        "1g.5gb": "3/7", "1g.5gb+me": "1/1", "1g.10gb": "2/4", "2g.10gb": "1/3", "3g.20gb": "1/2", "4g.20gb": "0/1",
        "7g.40gb": "0/1",
    }  # fmt: skip


def test_compute_instances_share_a_gpu_instance(node: Node, smi: Smi) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "3g.20gb:4")
    profiles = smi.ok(node, "mig", "-i", "0", "-gi", "1", "-lcip")
    assert re.findall(r"MIG (\S+) +(\d\*?) +(\d/\d)", profiles) == [
        ("1c.3g.20gb", "0", "3/3"),
        ("2c.3g.20gb", "1", "1/1"),
        ("3g.20gb", "2*", "1/1"),
    ]
    assert smi.ok(node, "mig", "-i", "0", "-gi", "1", "-lcipp") == (
        "GPU  0 GI  1 Profile ID  0 Placements: {0,1,2}:1\n"
        "GPU  0 GI  1 Profile ID  1 Placement : {0}:2\n"
        "GPU  0 GI  1 Profile ID  2 Placement : {0}:3\n"
    )
    said = smi.ok(node, "mig", "-i", "0", "-gi", "1", "-cci", "0,1")
    start = "Successfully created compute instance ID  %d on GPU  0 GPU instance ID  1 using profile MIG %s (ID  %d)\n"
    assert said == start % (0, "1c.3g.20gb", 0) + start % (1, "2c.3g.20gb", 1)
    assert [instance[:3] for instance in compute_instances(node)] == [(1, 0, "1c.3g.20gb"), (1, 1, "2c.3g.20gb")]
    assert re.findall(r"MIG (\S+) +Device +(\d):", smi.ok(node, "-L")) == [("1c.3g.20gb", "0"), ("2c.3g.20gb", "1")]

    result = smi(node, "mig", "-i", "0", "-gi", "1", "-cci", "0")
    assert result.returncode == INSUFFICIENT_RESOURCES
    assert result.stdout == (
        "Unable to create a compute instance on GPU  0 GPU instance ID  1 using profile 0: Insufficient Resources\n"
        "Failed to create compute instances: Insufficient Resources\n"
    )
    smi.ok(node, "mig", "-i", "0", "-gi", "1", "-ci", "0", "-dci")
    assert [instance[:3] for instance in compute_instances(node)] == [(1, 1, "2c.3g.20gb")]


def test_default_compute_instances_for_all_gpu_instances(node: Node, smi: Smi) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "5,19")
    smi.ok(node, "mig", "-i", "1", "-cgi", "0")
    smi.ok(node, "mig", "-cci")
    assert [instance[2] for instance in compute_instances(node)] == ["4g.20gb", "1g.5gb"]
    assert [instance[2] for instance in compute_instances(node, 1)] == ["7g.40gb"]


@pytest.mark.parametrize(
    ("argument", "code", "why"),
    [
        ("9:4", INSUFFICIENT_RESOURCES, "Insufficient Resources"),  # taken
        ("0", INSUFFICIENT_RESOURCES, "Insufficient Resources"),  # no room for the whole GPU
        ("9:1", INVALID, "Invalid Argument"),  # not a placement of that profile
        ("77", INVALID, "Invalid Argument"),
        ("1g.99gb", INVALID, "Invalid Argument"),
    ],
)
def test_rejected_gpu_instances(node: Node, smi: Smi, argument: str, code: int, why: str) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4")
    before = node.show()
    result = smi(node, "mig", "-i", "0", "-cgi", argument)
    assert result.returncode == code
    assert result.stdout == (
        "Unable to create a GPU instance on GPU  0 using profile %s: %s\n" % (argument, why)
        + "Failed to create GPU instances: %s\n" % why
    )
    assert node.show()["gpus"] == before["gpus"]


def test_several_instances_stop_at_the_first_that_does_not_fit(node: Node, smi: Smi) -> None:
    """From the MIG user guide: two small instances, created first, leave no placement for the large one."""
    result = smi(node, "mig", "-i", "0", "-cgi", "19:0,19:4,9,14")
    assert result.returncode == INSUFFICIENT_RESOURCES
    assert result.stdout.endswith("Failed to create GPU instances: Insufficient Resources\n")
    assert [placement for _id, _profile, placement in gpu_instances(node)] == ["4:1", "0:1"]


def test_instances_in_use_are_not_destroyed(node: Node, smi: Smi, sleeper: Sleeper) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4,14:0", "-C")
    node.attach(sleeper().pid, gpu=0, gi=1)
    result = smi(node, "mig", "-i", "0", "-gi", "1", "-ci", "0", "-dci")
    assert result.returncode == IN_USE
    assert result.stdout == (
        "Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  1: In use by another client\n"
        "Failed to destroy compute instances: In use by another client\n"
    )
    result = smi(node, "mig", "-i", "0", "-gi", "5", "-dgi")  # still holds a compute instance
    assert result.returncode == IN_USE
    assert result.stdout == (
        "Unable to destroy GPU instance ID  5 from GPU  0: In use by another client\n"
        "Failed to destroy GPU instances: In use by another client\n"
    )
    assert [instance[:2] for instance in compute_instances(node)] == [(1, 0), (5, 0)]


def test_destruction_lists_the_destroyed_instances(node: Node, smi: Smi) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4", "-C")
    said = smi.ok(node, "mig", "-i", "0", "-dci")
    assert said == "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1\n"
    assert smi.ok(node, "mig", "-i", "0", "-dgi") == "Successfully destroyed GPU instance ID  1 from GPU  0\n"
    result = smi(node, "mig", "-i", "0", "-dgi")
    assert (result.returncode, result.stdout) == (NOT_FOUND, "No GPU instances found: Not Found\n")
    assert gpu_instances(node) == []


@pytest.mark.parametrize("command", [("-cgi", "19"), ("-lgi",), ("-lci",), ("-dgi",), ("-dci",)], ids=str)
def test_managing_instances_requires_root(node: Node, smi: Smi, command: tuple[str, ...]) -> None:
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4", "-C")
    before = node.show()["gpus"]
    result = smi(node, "mig", "-i", "0", *command, uid=NOT_ROOT)
    assert result.returncode == NO_PERMISSION
    assert "Insufficient Permissions" in result.stdout
    assert node.show()["gpus"] == before


def test_managing_instances_requires_mig_mode(node: Node, smi: Smi) -> None:
    smi.ok(node, "-i", "1", "-mig", "0")
    for command in (("-lgi",), ("-lci",), ("-cgi", "19"), ("-dgi",), ("-dci",)):
        result = smi(node, "mig", "-i", "1", *command)
        assert result.stdout == "No MIG-enabled devices found.\n"
        assert result.returncode in (0, NOT_FOUND)  # 550 and 535 differ


def test_a_gpu_without_mig_has_no_profiles(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "L40S", "--driver", smi.version)
    result = smi(node, "mig", "-lgip")
    words = "supported" if smi.version >= "550" else "enabled"
    assert (result.returncode, result.stdout) == (NOT_FOUND, "No MIG-%s devices found.\n" % words)
