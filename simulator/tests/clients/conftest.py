# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated nodes, and the real nvidia-smi of two Debian releases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .support import REPOSITORY, SIMULATOR, MakeNode, Node, Smi


@pytest.fixture
def make_node(tmp_path: Path) -> MakeNode:
    """Create a node with the options of ``nvsim create``."""

    def make(*options: str) -> Node:
        node = tmp_path / "node"
        subprocess.run([sys.executable, str(SIMULATOR / "bin" / "nvsim"), "create", str(node), *options], check=True)
        return Node(node)

    return make


@pytest.fixture(scope="session", params=["bookworm", "trixie"])
def smi(request: pytest.FixtureRequest) -> Smi:
    """The real nvidia-smi of a Debian release. If it cannot be downloaded, tests that need it are skipped."""
    fetch = [str(REPOSITORY / "scripts" / "fetch-nvidia-smi"), request.param]
    fetched = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip("the real nvidia-smi is not available: %s" % fetched.stderr.strip())
    return Smi(Path(fetched.stdout.strip()))
