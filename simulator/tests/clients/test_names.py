# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The library has every function that nvidia-smi looks up by name."""

from __future__ import annotations

import re

from nvsim.library import library

from .support import Smi

NAME = re.compile(rb"\bnvml[A-Z][A-Za-z0-9_]+\b")


def test_all_names_exist(smi: Smi) -> None:
    """The program contains the names for dlsym as NUL-terminated strings."""
    texts = smi.program.read_bytes().split(b"\0")
    names = {text.decode() for text in texts if NAME.fullmatch(text)}
    assert len(names) > 200
    assert sorted(name for name in names if not hasattr(library(), name)) == []
