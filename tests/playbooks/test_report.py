# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook report.yml."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import GONE, LAYOUT, OFF, SITE

REPORT = PLAYBOOKS / "report.yml"


def data(path: Path) -> t.Dict[str, t.Any]:
    return t.cast("t.Dict[str, t.Any]", json.loads((path / "report.json").read_text()))


def test_the_report_shows_every_host_also_those_that_are_down(fleet: Fleet) -> None:
    fleet.node("good", "--board", "A100-80GB")
    fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT)
    fleet.node("drifted", "--board", "A100-80GB")
    fleet.host("down", **GONE, ansible_pipelining=False)  # which has two messages for a refused connection
    arguments = ("-e", "report_path=out")
    variables = {"nvidia_mig_layout": LAYOUT, "gpu_node_boards": ["A100-80GB"]}
    run = fleet.play(REPORT, *arguments, **variables)
    assert run.count("good", "changed") == 1  # the files
    assert run.stats()["gpufleet_report"]["hosts"] == 3
    out = fleet.work / "out"
    hosts = data(out)["hosts"]
    assert hosts["good"]["problems"] == []
    assert [each["kind"] for each in hosts["drifted"]["problems"]] == ["layout"]
    assert "it cannot be reached" in hosts["down"]["error"]
    assert (hosts["down"]["facts"], data(out)["cluster"]) == (None, None)
    assert data(out)["totals"]["hosts_unread"] == 1

    # Only the date differs.
    assert fleet.play(REPORT, *arguments, **variables).count("good", "changed") == 0
    before = data(out)
    assert fleet.play(REPORT, "--check", "-e", "report_path=other", **variables).count("good", "changed") == 1
    assert not (fleet.work / "other").exists() and data(out) == before


def test_processes_changes_and_a_cluster_that_cannot_be_read(fleet: Fleet) -> None:
    fleet.node("gpu1", "--board", "A100-80GB")
    fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT)
    fleet.play(REPORT, "-e", "report_path=before", nvidia_mig_layout=LAYOUT)
    fleet.nvsim("attach", "gpu1", "--pid", str(os.getpid()), "--gpu", "0", "--gi", "1", "--name", "<b>train</b>")
    missing = str(fleet.work / "missing")
    arguments = ("-e", "report_path=out.html", "-e", "report_previous=before")
    fleet.play(REPORT, *arguments, nvidia_mig_layout=OFF, gpu_cluster_kubeconfig=missing)
    found = json.loads((fleet.work / "out.json").read_text())
    ((process,),) = [gpu["processes"] for gpu in found["hosts"]["gpu1"]["facts"]["gpus"]]
    assert (process["pid"], process["gi_id"]) == (os.getpid(), 1)
    assert sum(row["busy"] for row in found["totals"]["profiles"]) == 1
    assert found["cluster"]["error"] and found["cluster"]["nodes"] == {}
    page = (fleet.work / "out.html").read_text()
    assert "The cluster cannot be read:" in page
    assert "found since" in page and "turn MIG mode off" in page
    assert "&lt;b&gt;train&lt;/b&gt;" in page and "<b>train" not in page
    refused = fleet.play(REPORT, "-e", "report_previous=missing", fails=True)
    assert "the controller has no missing. No node was read." in refused.output and "Read GPUs" not in refused.output


def test_a_node_does_not_choose_where_the_report_is_written(fleet: Fleet) -> None:
    fleet.node("gpu1", "--board", "A100-80GB")
    task = {"ansible.builtin.set_fact": {"report_path": str(fleet.work / "forged"), "cacheable": True}}
    returned = {"hosts": "gpu_nodes", "gather_facts": False, "tasks": [task]}  # as a module on the node could
    playbook = fleet.work / "playbook.yml"
    playbook.write_text(json.dumps([returned, {"ansible.builtin.import_playbook": str(REPORT)}]))
    assert "report_path" in fleet.play(playbook, fails=True).output
    assert not (fleet.work / "forged").exists()
