# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories of the simulated nodes: in memory if possible, because each case writes its node many times."""

from __future__ import annotations

import os
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.unit.conftest import fixture_no_pauses  # noqa: F401, applies to these tests too


def _directory() -> t.Iterator[Path]:
    memory = "/dev/shm"
    base = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="gpufleet-engine-", dir=base) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def templates() -> t.Iterator[Path]:
    """Directory of the nodes that cases are copied from."""
    yield from _directory()


@pytest.fixture
def cases() -> t.Iterator[Path]:
    """Directory of the nodes that a test may change."""
    yield from _directory()
