# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook report.yml."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import GONE, LAYOUT, SITE

REPORT = PLAYBOOKS / "report.yml"


def data(path: Path) -> t.Dict[str, t.Any]:
    return t.cast("t.Dict[str, t.Any]", json.loads((path / "report.json").read_text()))


def test_the_report_shows_every_host_also_those_that_are_down(fleet: Fleet) -> None:
    fleet.node("good", "--board", "A100-80GB")
    fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT)
    fleet.node("drifted", "--board", "A100-80GB")
    fleet.host("down", **GONE)
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
    page = (out / "index.html").read_text()
    fleet.nvsim("reset", "drifted", "--gpu", "0")
    before = data(out)
    assert fleet.play(REPORT, "--check", "-e", "report_path=other", **variables).count("good", "changed") == 1
    assert not (fleet.work / "other").exists() and data(out) == before and page
