# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import start
from ansible_collections.gpufleet.node.plugins.plugin_utils._report import data
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import HostReport, Report

GPU: t.Dict[str, t.Any] = {
    "index": 0,
    "uuid": "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60",
    "problem": None,
    "processes": [
        {"pid": 7, "name": "train", "gi_id": 2, "ci_id": 0},
        {"pid": 8, "name": "helper", "gi_id": 2, "ci_id": 0},
    ],
    "mig": {
        "capable": True,
        "current": True,
        "instances": [
            {
                "id": 2,
                "profile": "3g.40gb",
                "start": 4,
                "size": 4,
                "compute_instances": [{"profile": "1c.3g.40gb"}, {"profile": "2c.3g.40gb"}],
            },
            {"id": 9, "profile": "1g.10gb", "start": 0, "size": 1, "compute_instances": []},
        ],
    },
}


def host_of(gpus: t.Optional[t.List[t.Dict[str, t.Any]]]) -> HostReport:
    return HostReport(facts={"driver": {"version": "550.163.01"}, "gpus": gpus})


ENTRY = host_of([GPU])


def test_a_host_of_a_report_starts_from_its_gpus_and_instances() -> None:
    found = start.of_report(ENTRY)
    assert (found.gpus, found.driver, found.error) == ([GPU], "550.163.01", "")
    assert found.layout == [
        {
            "devices": [0],
            "mig_enabled": True,
            "mig_devices": [
                {"profile": "3g.40gb", "start": 4, "compute_instances": ["1c.3g.40gb", "2c.3g.40gb"]},
                {"profile": "1g.10gb", "start": 0},
            ],
        }
    ]


def test_a_gpu_of_a_report_that_could_not_be_read_starts_without_mig_and_a_note() -> None:
    lost = {"index": 1, "problem": "it is lost", "mig": {"capable": None, "current": None, "instances": None}}
    found = start.of_report(host_of([{**GPU, "mig": {"current": False}}, lost, {"index": None}]))
    assert (found.layout, len(found.gpus or ())) == ([], 2)
    assert found.notes == ["GPU 1 starts without MIG, because the report could not read it: it is lost"]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (None, "the host is not in it"),
        (HostReport(error="unreachable"), "unreachable"),
        (host_of(None), "it has no GPUs of the host"),
    ],
)
def test_a_host_that_a_report_could_not_read(host: t.Optional[HostReport], why: str) -> None:
    assert start.of_report(host) == start.Start(error="of the report: %s" % why)
    (note,) = start.busy_of_report(host)[1]
    assert note.startswith("it is unknown which instances are in use, ") and note.endswith(": " + why)


def test_the_work_of_a_report_is_one_entry_for_each_instance() -> None:
    (found,), notes = start.busy_of_report(ENTRY)
    assert notes == []
    assert (found["gpu"], found["profile"], found["start"]) == (0, "3g.40gb", 4)
    assert found["name"] == "train, PID 7 in the report"


def test_work_that_a_report_could_not_read_is_noted() -> None:
    gpus = [dict(ENTRY.gpus[0], processes=None)]
    found, (note,) = start.busy_of_report(ENTRY._replace(facts=dict(ENTRY.facts, gpus=gpus)))
    assert found == [] and note.startswith("it is unknown which instances are in use on GPU 0, ")


def test_a_file_is_a_report_by_its_format(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert start.report_of(path) is None
    for other in ("all: {}", "[]", '{"hosts": {}}'):
        path.write_text(other)
        assert start.report_of(path) is None
    written = data.serialized(Report(created="2026-11-28T06:00:00Z", hosts={"a": HostReport(error="unreachable")}))
    path.write_text(json.dumps(written))
    assert (start.report_of(path) or Report("", {})).hosts == data.of(written).hosts
    path.write_text(json.dumps({**written, "version": 2}))
    with pytest.raises(Refusal, match="it has version 2 of the format"):
        start.report_of(path)
    path.write_text("[" * 100000)
    with pytest.raises(Refusal, match="%s cannot be read: its JSON is nested too deeply" % path):
        start.report_of(path)


def test_the_directory_of_a_report_is_one_and_an_inventory_with_a_report_is_not(tmp_path: Path) -> None:
    written = data.serialized(Report(created="2026-11-28T06:00:00Z", hosts={}))
    (tmp_path / "report.json").write_text(json.dumps(written))
    assert start.report_of(tmp_path) is None
    (tmp_path / "index.html").write_text("<!DOCTYPE html>")
    assert start.report_of(tmp_path) is not None


def test_busy_entries_of_a_list_and_of_a_file(tmp_path: Path) -> None:
    entries = [{"host": "a", "gpu": "1", "profile": "1g.10gb"}, {"host": "b"}]
    path = tmp_path / "busy.yml"
    path.write_text(json.dumps(entries))
    assert start.busy_entries(str(path)) == start.busy_entries(entries) == entries
    assert start.busy_entries(json.dumps(entries)) == entries
    assert start.busy_entries("") == start.busy_entries(None) == start.busy_entries([]) == []
    path.write_text("[]")
    assert start.busy_entries(str(path)) == []
    (found,) = start.busy_of_list(entries, "a")
    assert (found["gpu"], found["profile"], found["start"], found["count"]) == (1, "1g.10gb", None, None)
    assert found["text"] == "{gpu: 1, profile: 1g.10gb}"


@pytest.mark.parametrize("text", ["", "{}", "---"])
def test_an_empty_file_does_not_say_that_nothing_is_in_use(tmp_path: Path, text: str) -> None:
    path = tmp_path / "busy.yml"
    path.write_text(text)
    with pytest.raises(Refusal, match="%s is empty: give \\[\\]" % path):
        start.busy_entries(str(path))


def test_the_hosts_that_only_the_former_inventory_has() -> None:
    assert start.removed(Path("/former"), ["a", "b", "c"], {"b", "d"}) == ["a", "c"]
    for former in ([], ["{}"]):
        with pytest.raises(Refusal, match="rehearse_from: /former has no host of the inventory"):
            start.removed(Path("/former"), former, {"b", "d"})


def test_a_misspelled_variable() -> None:
    start.require_known_names(["rehearse_from", "rehearsed", "ansible_facts"])
    with pytest.raises(Refusal, match="unknown variable rehearse_form .did you mean rehearse_from"):
        start.require_known_names(["rehearse_form"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("/nonexistent", "/nonexistent cannot be read"),
        ("[{host: a}", "rehearse_busy is no list"),
        ({}, "rehearse_busy is"),
        ({"host": "a"}, "rehearse_busy is"),
        (["a"], "rehearse_busy is"),
        ([{"gpu": 0}], "names no host"),
        ([{"host": ["a"]}], "names no host"),
        ([{"host": "a", "gpu": "²"}], "gpu of .* is no number"),
        ([{"host": "a", "gpu": "all"}], "gpu of .* is no number"),
        ([{"host": "a", "profil": "1g.10gb"}], "unknown key .profil. .did you mean profile"),
    ],
)
def test_busy_entries_that_are_invalid(value: t.Any, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        start.busy_entries(value)
