# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import retry


@pytest.fixture(autouse=True)
def fixture_no_pauses(monkeypatch):
    """Retry writes without delay."""
    monkeypatch.setattr(retry, "PAUSES", (0.0,) * len(retry.PAUSES))
