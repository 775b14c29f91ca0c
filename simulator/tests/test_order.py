# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ids and default placements in transcripts of real GPUs. Entries are profile id: GPU instance id, start."""

from __future__ import annotations

import typing as t

import pynvml as nv
import pytest
import yaml
from conftest import SIMULATOR, code_of, create_at, mig_devices
from nvsim import description

Simulate = t.Callable[..., t.Any]

TRANSCRIPTS = [
    ("A100-80GB", [(19, 9, 6), (19, 7, 4), (19, 8, 5), (19, 11, 0), (19, 12, 1), (19, 13, 2), (19, 14, 3)]),
    ("A100-80GB", [(9, 1, 4), (14, 5, 0), (19, 13, 2)]),
    ("A100-80GB", [(9, 1, 4), (9, 2, 0)]),
    ("A100-40GB", [(9, 1, 4), (19, 11, 0), (14, 6, 2), (19, 12, 1)]),
    ("A100-40GB", [(5, 2, 0), (14, 3, 4), (19, 9, 6)]),
    ("A30-24GB", [(14, 3, 0), (14, 4, 1), (14, 5, 2), (14, 6, 3)]),
    ("H100-80GB", [(9, 2, 4), (14, 3, 0)]),
]


@pytest.mark.parametrize(("board", "created"), TRANSCRIPTS)
def test_ids_and_default_placements(simulate: Simulate, board: str, created: t.List[t.Tuple[int, int, int]]) -> None:
    device = simulate(board).handle()
    for profile_id, gi_id, start in created:
        info = nv.nvmlGpuInstanceGetInfo(nv.nvmlDeviceCreateGpuInstance(device, profile_id))
        assert (info.profileId, info.id, info.placement.start) == (profile_id, gi_id, start)


def test_seven_ids_of_gh200(simulate: Simulate) -> None:
    """Recorded as 7 to 13 at 0 to 6."""
    device = simulate("GH200-96GB").handle()
    ids = {}
    for start in range(7):
        ids[start] = nv.nvmlGpuInstanceGetInfo(create_at(device, 19, start, 1)).id
    assert ids == {start: 7 + start for start in range(7)}


def test_the_order_of_creation_matters(simulate: Simulate) -> None:
    """-cgi 19,19,14,9 fails, but 9,19,14,19 works."""
    device = simulate("A100-40GB").handle()
    for profile_id in (19, 19, 14):
        nv.nvmlDeviceCreateGpuInstance(device, profile_id)
    assert code_of(nv.nvmlDeviceCreateGpuInstance, device, 9) == nv.NVML_ERROR_INSUFFICIENT_RESOURCES


def test_mig_devices_are_numbered_by_instance_id(simulate: Simulate) -> None:
    device = simulate("A100-80GB").handle()
    for profile_id in (19, 9, 14):
        gi = nv.nvmlDeviceCreateGpuInstance(device, profile_id)
        for _ci in range(2 if profile_id == 9 else 1):
            nv.nvmlGpuInstanceCreateComputeInstance(gi, 0)
    places = [
        (nv.nvmlDeviceGetGpuInstanceId(mig), nv.nvmlDeviceGetComputeInstanceId(mig)) for mig in mig_devices(device)
    ]
    assert places == sorted(places)
    assert len(places) == 4
    assert [nv.nvmlDeviceGetIndex(mig) for mig in mig_devices(device)] == [0, 1, 2, 3]


def test_recorded_uuids(simulate: Simulate) -> None:
    """A node from a recording has the UUIDs of the real GPU, in the order of its nvidia-smi -L."""
    path = SIMULATOR / "nvsim" / "recorded" / "a100-80gb-pcie.yml"
    recorded = yaml.safe_load(path.read_text())
    [(uuid, known)] = recorded.items()
    boards, products = description.load_boards(), description.load_products()["products"]
    session = simulate("A100-80GB")
    session.node.create(
        description.describe(
            [description.RequestedGpu(description.find("A100-80GB", boards, products), uuid)], recorded=recorded
        )
    )
    nv.nvmlDeviceSetMigMode(session.handle(), 1)
    for layout in ((19,) * 7, (9, 14, 19)):
        made = [nv.nvmlDeviceCreateGpuInstance(session.handle(), profile_id) for profile_id in layout]
        cis = [nv.nvmlGpuInstanceCreateComputeInstance(gi, {19: 0, 14: 1, 9: 2}[p]) for gi, p in zip(made, layout)]
        ids = sorted(nv.nvmlGpuInstanceGetInfo(gi).id for gi in made)
        shown = [nv.nvmlDeviceGetUUID(mig) for mig in mig_devices(session.handle())]
        assert shown == [known["%d/0" % gi_id] for gi_id in ids]
        for ci in cis:
            nv.nvmlComputeInstanceDestroy(ci)
        for gi in made:
            nv.nvmlGpuInstanceDestroy(gi)


def test_older_driver(simulate: Simulate) -> None:
    """Driver 515 has no 1g.20gb, and reports more memory for 7g.80gb."""
    gpu = simulate("A100-80GB", driver="515.86.01").gpu()
    rows = {row["name"]: row for row in gpu["profiles"]}
    assert list(rows) == ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me"]
    assert rows["1g.10gb"]["decoders"] == 0
    assert rows["7g.80gb"]["memory_mib"] / 1024 == 79.0


@pytest.mark.parametrize("driver", ["515.86.01", "535.261.03", "550.163.01", "580.126.09"])
def test_the_smallest_profile_of_an_a100_80gb_has_no_decoder(simulate: Simulate, driver: str) -> None:
    """Five decoders are not enough for seven instances. The profiles with more memory or media have one each."""
    rows = {row["name"]: row["decoders"] for row in simulate("A100-80GB", driver=driver).gpu()["profiles"]}
    assert (rows["1g.10gb"], rows["1g.10gb+me"], rows.get("1g.20gb", 1), rows["7g.80gb"]) == (0, 1, 1, 5)


NAMES = {  # by branch, in the order of NVML's constants
    "GB200-186GB": {
        580: ["1g.23gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb", "1g.23gb+me", "1g.47gb"],
        590: ["1g.24gb", "2g.47gb", "3g.95gb", "4g.95gb", "7g.189gb", "1g.24gb+me", "1g.47gb"],
    },
    "GB300": {
        580: ["1g.35gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb", "1g.35gb+me", "1g.70gb"],
        590: ["1g.34gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb", "1g.34gb+me", "1g.70gb"],
    },
}


@pytest.mark.parametrize("branch", [580, 590])
@pytest.mark.parametrize("board", NAMES)
def test_names_by_driver(simulate: Simulate, board: str, branch: int) -> None:
    """GPU instances, compute instances and MIG devices have the driver's names. Ids and placements do not change."""
    session = simulate(board, driver="%d.10.01" % branch)
    rows = session.gpu()["profiles"]
    assert [row["name"] for row in rows] == NAMES[board][branch]
    assert [row["id"] for row in rows] == [19, 14, 9, 5, 0, 20, 15]
    gi = nv.nvmlDeviceCreateGpuInstance(session.handle(), 9)
    nv.nvmlGpuInstanceCreateComputeInstance(gi, 0)
    name = nv.nvmlDeviceGetName(mig_devices(session.handle())[0])
    assert name.endswith(" MIG 1c." + NAMES[board][branch][2])


def test_old_names(simulate: Simulate) -> None:
    gpu = simulate("A100-80GB", quirks=["old-names"]).gpu()
    names = {row["name"] for row in gpu["profiles"]}
    assert {"3g.39gb", "7g.79gb", "1g.10gb+me"} <= names
