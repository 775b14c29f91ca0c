# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The JSON file of a report."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._report import data
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import ClusterReport
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import read, report
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST

WHOLE = report(read(), read("down", {"unreachable": True, "msg": "timed out"}), cluster=ClusterReport(error="no"))


def test_a_report_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data.serialized(WHOLE)))
    assert data.read(path) == WHOLE
    assert data.read(path).hosts["down"].gpus is None
    assert WHOLE.collection


def test_unknown_values_are_null():
    found = data.serialized(WHOLE)["hosts"]["down"]
    assert [found[key] for key in ("facts", "toolkit", "drained", "node", "boards")] == [None] * 5
    assert data.serialized(report(read()))["cluster"] is None


INSTANCE = {"id": 1, "start": 0, "size": 1, "profile": "1g.10gb"}


def changed(**changes):
    return {**json.loads(json.dumps(data.serialized(WHOLE))), **changes}


def with_gpu(**changes):
    out = changed()
    out["hosts"]["gpu1"]["facts"]["gpus"][0].update(changes)
    return out


def with_host(**changes):
    out = changed()
    out["hosts"]["gpu1"].update(changes)
    return out


def test_what_a_later_release_adds_to_this_version_of_the_format_is_accepted():
    """The version changes if a key gets another meaning, and not with a key or a kind of problem."""
    problem = {"kind": "later", "text": "later", "gpu": None, "desired": None, "later": 1}
    found = data.of({**with_host(later=1, problems=[problem]), "later": 1}).hosts["gpu1"]
    assert found == WHOLE.hosts["gpu1"]._replace(problems=[data.Problem("later", "later")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: .*No such file"),
        ("{", "is not JSON"),
        ("[]", "its key format is not gpufleet.node/report. Give the file report.json"),
        ({"format": "other"}, "its key format is not"),
        (changed(version=2), "has version 2 of the format, and this collection reads version 1"),
        ({"format": data.FORMAT, "version": 1}, "a value is missing or has another type"),
        (changed(hosts=[]), "a value is missing"),
        (changed(hosts={"a": {"unknown": 1}}), "a value is missing"),
        (changed(cluster={"nodes": 1, "error": None}), "another type"),
        (with_host(toolkit="1.17"), "toolkit is .*1.17"),
        (with_host(error=[]), "error is"),
        (with_host(problems=[{"kind": "failed", "text": None}]), "text is null"),
        (with_host(problems=[{"kind": "failed", "text": "a", "gpu": []}]), "gpu is"),
        (with_host(facts={"driver": {}}), "no list of GPUs"),
        (with_gpu(index="<b>"), "no list of GPUs"),
        (with_gpu(uuid=["GPU-1"]), "no list of GPUs"),
        (with_gpu(pci_bus_id=["1"]), "no list of GPUs"),
        (with_gpu(processes=[{"gi_id": []}]), "no list of GPUs"),
        (with_gpu(mig=None), "no list of GPUs"),
        (with_gpu(processes=[1]), "no list of GPUs"),
        (with_gpu(mig={"instances": [{"id": 1}]}), "no list of GPUs"),
        (with_gpu(mig={"instances": [{**INSTANCE, "compute_instances": [{}]}]}), "no list of GPUs"),
    ],
)
def test_other_files_are_refused_with_the_path_and_the_reason(tmp_path, content, message):
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(Refusal, match=re.escape(str(path))) as raised:
        data.read(path)
    assert re.search(message, str(raised.value))


def test_a_lost_gpu_is_part_of_the_facts():
    assert data.require_facts({"driver": {}, "gpus": [LOST]})
    assert data.require_facts({"driver": {}, "gpus": None})
