# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvsim create --from: nodes like recorded ones. A whole node is recorded and repeated in clients/test_views.py."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from conftest import HERE, SIMULATOR
from nvsim.library import Node

A100 = HERE / "recorded" / "a100-sxm4-80gb.xml"


def create(node: Path, log: Path, *options: str) -> t.Tuple[int, str]:
    command = [sys.executable, SIMULATOR / "bin" / "nvsim", "create", node, "--from", log, *options]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_a_recorded_node(tmp_path: Path) -> None:
    assert create(tmp_path / "node", A100) == (0, "")
    node = Node(tmp_path / "node").show()
    (gpu,) = node["gpus"]
    assert (node["driver_version"], node["cuda_version"]) == ("535.54.03", 12020)
    assert (gpu["name"], gpu["uuid"]) == ("NVIDIA A100-SXM4-80GB", "GPU-513536b6-7d19-9063-b049-1e69664bb298")
    assert (gpu["serial"], gpu["pci_bus_id"], gpu["vbios"]) == ("1650522003820", "00000000:01:00.0", "92.00.36.00.02")
    assert (gpu["pci_device_id"], gpu["pci_subsystem_id"]) == (0x20B210DE, 0x147F10DE)
    found = [(gi["id"], gi["profile"], gi["start"]) for gi in gpu["gpu_instances"]]
    assert sorted(found) == [(3, "1g.20gb", 4), (4, "1g.20gb", 6), (5, "1g.20gb", 0), (6, "1g.20gb", 2)]


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><nvidia_smi_log>&b;</nvidia_smi_log>'


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("</nvidia_smi_log>", "", "no element found"),
        ("nvidia_smi_log>", "svg>", "the outermost element is svg"),
        (None, ENTITIES, "it declares XML entities"),
        (None, "<nvidia_smi_log/>", "it has no driver version, or no GPU"),
        ("GPU-513536b6-7d19-9063-b049-1e69664bb298", "N/A", "GPU 00000000:01:00.0 has no product name, or no UUID"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A10G", "unknown board or product NVIDIA A10G: use one of"),
        ("19968 MiB", "N/A", "fb_memory_usage/total: no number, but None"),
        ("20B210DE", "none", "a PCI device id looks like 20B210DE, not none"),
        (">14<", ">13<", "cannot create compute instance 0 with 13 SMs"),
        (">3</gpu_instance_id>", ">99</gpu_instance_id>", "no free profile and placement has the GPU instance id 99"),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, old: t.Optional[str], new: str, problem: str) -> None:
    log = tmp_path / "log.xml"
    log.write_text(A100.read_text().replace(old, new) if old else new)
    code, said = create(tmp_path / "node", log)
    assert (code, said.count("\n")) == (1, 1), said
    assert said.startswith("nvsim: ") and problem in said


def test_from_excludes_other_gpus(tmp_path: Path) -> None:
    code, said = create(tmp_path / "node", A100, "--board", "T4")
    assert (code, said[:27]) == (1, "nvsim: --from names GPUs an")
