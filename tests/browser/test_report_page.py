# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of the report's page, in a browser."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import files
from ansible_collections.gpufleet.node.tests.browser.chromium import Browser, program
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import (
    INSTANCES,
    process,
    read,
    report,
    state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, gpu

FLEET = report(
    read("busy", state(gpu(0, *INSTANCES, processes=[process(7, 2, "train")]), gpu(1, *INSTANCES))),
    read("idle", state(gpu(0, *INSTANCES))),
    read("lost", state(gpu(0, *INSTANCES), LOST)),
    read("down", {"unreachable": True, "msg": "timed out"}, gpu_node_boards=["H100-80GB"]),
)
VISIBLE = "[...document.querySelectorAll('.host:not([hidden])')].map(e => e.querySelector('h3').firstChild.data.trim())"


@pytest.fixture(name="browser", scope="module")
def fixture_browser(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Browser]:
    command = program()
    if command is None:
        pytest.skip("needs Chromium")
    work: Path = tmp_path_factory.mktemp("browser")
    files.write(FLEET, None, str(work), False)
    with Browser(command, work / "profile", work / "index.html") as browser:
        yield browser


def enter(browser: Browser, **controls: t.Any) -> t.Any:
    """The visible hosts after these values were entered, of the controls by their id."""
    values = {"search": "", "use": "", "board": "", "order": "name", "only": False, **controls}
    for name, value in values.items():
        field = "checked" if name == "only" else "value"
        browser.evaluate(
            "{ const e = document.getElementById(%r); e.%s = %s; e.dispatchEvent(new Event(%r)); }"
            % (name, field, json.dumps(value), "input" if name == "search" else "change")
        )
    browser.evaluate("new Promise(done => setTimeout(done, 300))")  # the search begins when nothing more is typed
    return browser.evaluate(VISIBLE)


def test_the_page_loads_without_errors_and_requests(browser: Browser) -> None:
    assert browser.console == []
    (only,) = browser.requests
    assert only.startswith("file://") and only.endswith("/index.html")
    assert browser.evaluate("document.getElementById('shown').value") == "4 of 4 hosts, 5 GPUs"


@pytest.mark.parametrize(
    ("controls", "hosts"),
    [
        ({}, ["busy", "down", "idle", "lost"]),
        ({"search": "TRAIN"}, ["busy"]),
        ({"search": "lost 3g.40gb"}, ["lost"]),
        ({"search": "nothing like that"}, []),
        ({"use": "busy"}, ["busy"]),
        ({"use": "unknown"}, ["down", "lost"]),
        ({"board": "H100-80GB"}, ["down"]),
        ({"only": True}, ["down", "lost"]),
        ({"order": "problems"}, ["down", "lost", "busy", "idle"]),
        ({"order": "idle"}, ["busy", "idle", "lost", "down"]),
    ],
)
def test_search_filters_and_order(browser: Browser, controls: t.Dict[str, t.Any], hosts: t.List[str]) -> None:
    assert enter(browser, **controls) == hosts
    assert browser.evaluate("document.getElementById('nothing').hidden") == bool(hosts)


def test_a_column_is_sorted_up_and_down(browser: Browser) -> None:
    column = "[...document.querySelectorAll('#totals table')][1].tBodies[0].rows"
    button = "document.querySelectorAll('#totals table')[1].tHead.rows[0].cells[2].querySelector('button').click()"
    found = []
    for _click in range(2):
        browser.evaluate(button)
        found.append(browser.evaluate("[...%s].map(row => Number(row.cells[2].textContent))" % column))
    assert found[0] == sorted(found[0]) and found[1] == found[0][::-1] and len(set(found[0])) > 1


def test_a_link_to_a_hidden_host_shows_it(browser: Browser) -> None:
    assert enter(browser, search="train") == ["busy"]
    browser.evaluate("document.querySelector('#problems a[href^=\"#host\"]').click()")
    assert len(browser.evaluate(VISIBLE)) == 4
    assert browser.console == [] and len(browser.requests) == 1
