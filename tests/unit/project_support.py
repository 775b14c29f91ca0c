# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the project, for tests of its rules."""

from __future__ import annotations

import subprocess
import typing as t
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


@cache
def files() -> t.Sequence[Path]:
    """The project's files, relative to its root."""
    listed = subprocess.run([TOP / "scripts" / "files"], check=True, capture_output=True).stdout.decode()
    return [Path(name) for name in listed.split("\0") if name]


@cache
def text_of(path: Path) -> str:
    """The text of a file; empty for links, whose targets are checked, and for binary files."""
    if (TOP / path).is_symlink():
        return ""
    try:
        return (TOP / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
