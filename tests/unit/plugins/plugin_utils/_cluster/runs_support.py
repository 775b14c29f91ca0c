# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs and their temporary directories."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs


def temporary(path: Path, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def run_of(pid: int) -> runs.Run:
    return runs.current()._replace(pid=pid, started=runs._started(pid))
