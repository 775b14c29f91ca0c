# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import job
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.start import Start

UUID = "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"
A100 = ["A100-80GB", "A100-80GB"]
MIG: t.Dict[str, t.Any] = {
    "nvidia_mig_layout": [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}],
    "nvidia_mig_layouts": {},
    "nvidia_mig_reset": True,
    "nvidia_mig_disturb": False,
    "nvidia_mig_busy": "skip",
    "nvidia_mig_reboot": True,
}


def made(boards: t.Sequence[str] = A100, start: Start | None = None, **mig: t.Any) -> t.Tuple[t.Any, t.List[str]]:
    host = job.Host("a", boards, {**MIG, **mig}, "550")
    return job.job(host, start or Start(), "auto", Path("/work"))


def test_the_module_runs_with_the_variables_of_the_host_and_files_of_the_folder() -> None:
    found, notes = made()
    assert notes == [] and found["reboot"] is True
    wanted = {"layout": MIG["nvidia_mig_layout"], "reset": True, "disturb": False, "busy": "skip"}
    assert found["options"] == {**wanted, **found["paths"], "lock_path": "/work/lock", "backend": "nvml"}
    assert (found["folder"], found["seed"], found["driver"]) == ("/work/node", "a", "550")


def test_a_layout_with_a_name() -> None:
    found, _notes = made(nvidia_mig_layout="half", nvidia_mig_layouts={"half": MIG["nvidia_mig_layout"]})
    assert found["options"]["layout"] == MIG["nvidia_mig_layout"]


def test_the_product_of_a_board_is_the_one_that_the_layout_names() -> None:
    layout = [{"devices": "*PCIe*", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}]
    found, _notes = made(nvidia_mig_layout=layout)
    assert [gpu["names"][0] for gpu in found["gpus"]] == ["0x20B510DE", "0x20B510DE"]


def test_gpus_get_the_identities_that_the_layouts_name() -> None:
    """Those of one entry are different GPUs, and no other GPU has the same PCI bus id."""
    layout = [{"devices": [UUID, "00000000:47:00.0"], "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}]
    found, notes = made(["A100-80GB"] * 3, nvidia_mig_layout=layout, start=Start(layout=layout))
    assert [gpu["uuid"] for gpu in found["gpus"]] == [UUID, None, None]
    assert found["gpus"][1]["bus_id"] == "00000000:47:00.0"
    assert len({gpu["bus_id"] for gpu in found["gpus"]}) == 3
    assert [note.split(":")[0] for note in notes] == [UUID + " is taken for GPU 0", "00000000"]


def test_gpus_of_a_report_keep_their_identities() -> None:
    gpu = {
        "index": 0,
        "uuid": UUID,
        "pci_bus_id": "00000000:47:00.0",
        "pci_device_id": "0x20B510DE",
        "name": "NVIDIA X",
    }
    found, _notes = made(boards=[], start=Start(gpus=[gpu], driver="535.1"))
    names = ["0x20B510DE", "NVIDIA X", "A100-80GB"]
    assert found["gpus"] == [{"names": names, "uuid": UUID, "bus_id": "00000000:47:00.0"}]


def test_a_host_without_boards_and_without_a_report() -> None:
    with pytest.raises(Refusal, match="name them in gpu_node_boards"):
        made(boards=[])


def test_a_host_without_a_layout_is_only_created() -> None:
    found, _notes = job.job(job.Host("a", A100, None), Start(driver="535.1"), "auto", Path("/work"))
    assert (found["options"], found["driver"]) == (None, "535.1")
