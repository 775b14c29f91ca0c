# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all tests: the collection's import path, Hypothesis, and skips in CI."""

from __future__ import annotations

import os
import signal
import sys
import typing as t
from pathlib import Path

import hypothesis
import pytest

TOP = Path(__file__).resolve().parent.parent
COLLECTIONS = TOP / ".cache" / "collections"

# ansible_collections.gpufleet.node is the checkout; scripts/bootstrap makes the link.
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

# Tests send them, and nohup and jobs in the background have them ignored, also in child processes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: the duration of an example depends on the machine more than on the code. In CI, the examples are the
# same in every run, so that a failure can be reproduced.
hypothesis.settings.register_profile(
    "project", deadline=None, print_blob=True, derandomize=os.environ.get("CI") == "true"
)
hypothesis.settings.load_profile("project")


def pytest_report_header() -> str:
    return "skips are failures: CI=true" if _skips_fail() else "skips are allowed: CI is not set"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> t.Iterator[None]:
    """Treat a skip in CI as a failure: the machine must have everything that the tests need."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and _skips_fail():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = "not run, and CI=true allows no skip: %s" % reason


def _skips_fail() -> bool:
    return os.environ.get("CI") == "true"
