# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs and their temporary directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.runs_support import temporary


@pytest.fixture(name="own")
def fixture_own(tmp_path: Path) -> Path:
    """Ansible's temporary directory for a run."""
    return temporary(tmp_path / "ansible-local-own")
