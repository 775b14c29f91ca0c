# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import smi_log, smi_tables
from ansible_collections.gpufleet.node.plugins.module_utils._backend.smi_tables import ParseError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Process
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend import smi_texts as texts

TABLES = [
    (smi_tables.profiles, texts.PROFILES),
    (smi_tables.instances, texts.INSTANCES),
    (smi_tables.compute_instances, texts.COMPUTE_INSTANCES),
    (smi_tables.compute_profiles, texts.COMPUTE_PROFILES),
]
LISTS = [(smi_tables.placements, texts.PLACEMENTS), (smi_tables.compute_placements, texts.COMPUTE_PLACEMENTS)]


def test_profiles():
    assert smi_tables.profiles(texts.PROFILES) == [
        ("1g.10gb", 19, 7, 9728, 14),
        ("1g.10gb+me", 20, 1, 9728, 14),
        ("3g.40gb", 9, 2, 40192, 42),
    ]


def test_profiles_in_a_wider_table():
    (row,) = smi_tables.profiles(texts.PROFILES_WIDE)
    assert row == ("1g.24gb+me.all", 67, 1, 24064, 46)


def test_instances():
    assert smi_tables.instances(texts.INSTANCES) == [(0, 19, 11, 0, 1), (0, 9, 1, 4, 4)]
    assert smi_tables.compute_instances(texts.COMPUTE_INSTANCES) == [
        (0, 1, "2c.3g.40gb", 1, 1, 0, 2),
        (0, 1, "1c.3g.40gb", 0, 0, 2, 1),
    ]


def test_compute_profiles():
    assert smi_tables.compute_profiles(texts.COMPUTE_PROFILES) == [
        (11, "1g.10gb", 0, 1, 14),
        (1, "1c.3g.40gb", 0, 3, 14),
        (1, "2c.3g.40gb", 1, 1, 28),
        (1, "3g.40gb", 2, 1, 42),
    ]


def test_placements():
    assert smi_tables.placements(texts.PLACEMENTS) == {
        19: [(start, 1) for start in range(7)],
        20: [(start, 1) for start in range(7)],
        9: [(0, 4), (4, 4)],
    }
    assert smi_tables.compute_placements(texts.COMPUTE_PLACEMENTS) == {
        0: [(0, 1), (1, 1), (2, 1)],
        1: [(0, 2)],
        2: [(0, 3)],
    }


def test_uuids_of_one_gpu():
    assert smi_tables.mig_devices(texts.LIST, "GPU-aaaa") == [((1, 3), "MIG-0"), ((2, 3), "MIG-1")]
    assert smi_tables.mig_devices(texts.LIST, "GPU-bbbb") == [((1, 1), "MIG-2")]
    assert smi_tables.mig_devices(texts.LIST, "GPU-cccc") == []


@pytest.mark.parametrize(
    "mebibytes",
    [4864, 5952, 9728, 9856, 9984, 10880, 11968, 16128, 18048, 19968, 20096, 22016, 24000, 40192, 40448, 80640, 81152],
)
def test_memory_is_exact_despite_the_rounding_in_the_table(mebibytes):
    assert smi_tables.mebibytes("%.2f" % (mebibytes / 1024)) == mebibytes


def test_memory_that_is_not_a_multiple_of_64_is_approximate():
    assert abs(smi_tables.mebibytes("%.2f" % (5000 / 1024)) - 5000) <= 11


@pytest.mark.parametrize(("parse", "text"), TABLES + LISTS)
def test_no_line_is_skipped(parse, text):
    """Each truncated or garbled line is an error or affects only headings."""
    good = parse(text)
    lines = text.splitlines()
    for position, line in enumerate(lines):
        for garbled in (line[:-9], line + " 1", line.replace("0", "?"), "Unable to determine the device handle"):
            if garbled == line:
                continue
            try:
                found = parse("\n".join(lines[:position] + [garbled] + lines[position + 1 :]))
            except ParseError:
                continue
            assert found == good and not any(character.isdigit() for character in line)


@pytest.mark.parametrize(("parse", "text"), TABLES)
def test_no_line_may_be_missing_from_a_pair(parse, text):
    lines = text.splitlines()
    rows = [position for position, line in enumerate(lines) if "MIG " in line]
    if parse in (smi_tables.profiles, smi_tables.compute_profiles):
        with pytest.raises(ParseError):
            parse("\n".join(lines[: rows[0] + 1] + lines[rows[0] + 2 :]))


@pytest.mark.parametrize("parse", [parse for parse, _text in TABLES])
def test_text_without_a_table(parse):
    for text in ("", "No MIG-enabled devices found.\n", "Segmentation fault\n"):
        with pytest.raises(ParseError):
            parse(text)


def test_unknown_lines_in_the_list_of_devices():
    with pytest.raises(ParseError, match="Unable to count"):
        smi_tables.mig_devices("Unable to count the devices\n" + texts.LIST, "GPU-aaaa")
    lost = "Unable to determine the device handle for GPU: GPU is lost\n"
    assert [row.uuid for row in smi_tables.mig_devices(lost + texts.LIST, "GPU-aaaa")] == ["MIG-0", "MIG-1"]


def test_compute_slices_by_name():
    assert smi_tables.compute_slices("1c.3g.40gb") == 1
    assert smi_tables.compute_slices("3g.40gb+me") == 3
    with pytest.raises(ParseError):
        smi_tables.compute_slices("whole")


def test_log():
    log = smi_log.parse(texts.LOG)
    assert (log.driver, log.cuda, log.uuid, log.name) == ("550.163.01", "12.4", "GPU-aaaa", "NVIDIA A100 80GB PCIe")
    assert (log.pci_bus_id, log.pci_device_id, log.pci_subsystem_id) == ("00000001:00:00.0", 0x20B510DE, 0x153310DE)
    assert (log.mode_current, log.mode_pending, log.memory_mib, log.architecture) == (True, True, 81920, "ampere")
    assert (log.serial, log.minor) == ("1323020000000", 0)
    assert log.devices == ((0, 1, 0), (1, 1, 1))
    assert log.processes == (Process(42, "", None, None), Process(4711, "python", 1, 0))


def test_a_name_of_a_process_cannot_make_the_log_unreadable():
    named = texts.LOG.replace("<process_name>python<", "<process_name>py\x1bt\ufffeh\uffffon<")
    assert {process.name for process in smi_log.parse(named).processes} >= {"python"}


def test_log_of_a_gpu_without_mig():
    text = texts.LOG.replace("<current_mig>Enabled", "<current_mig>N/A").replace(
        "<pending_mig>Enabled", "<pending_mig>N/A"
    )
    start, end = text.index("<mig_devices>"), text.index("<serial>")
    text = text[:start] + "<mig_devices>None</mig_devices>" + text[end:]
    text = text.replace("Ampere", "Ada Lovelace").replace("1323020000000", "N/A")
    log = smi_log.parse(text)
    assert (log.mode_current, log.mode_pending, log.architecture, log.serial) == (None, None, "ada", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</gpu>", ""),
        ("<uuid>GPU-aaaa</uuid>", ""),
        ("<current_mig>Enabled", "<current_mig>Maybe"),
        ("<current_mig>Enabled", "<current_mig>N/A"),
        ("<total>81920 MiB", "<total>81920 kB"),
        ("<pid>42", "<pid>N/A"),
        ("<index>1</index>", ""),
        ('<gpu id="00000001:00:00.0">', '<gpu id="00000002:00:00.0"></gpu><gpu id="00000001:00:00.0">'),
    ],
)
def test_an_inconsistent_log(old, new):
    with pytest.raises(ParseError):
        smi_log.parse(texts.LOG.replace(old, new, 1))
