# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every function that a client looks up by name exists in the library."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pynvml

from .support import Smi

NAME = re.compile(rb"\bnvml[A-Z][A-Za-z0-9_]+\b")


def missing(library: Path, names: set[str]) -> list[str]:
    loaded = ctypes.CDLL(str(library))
    return sorted(name for name in names if not hasattr(loaded, name))


def test_every_function_that_pynvml_calls_exists(simulator: Path) -> None:
    source = Path(pynvml.__file__).read_text()
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', source))
    assert len(names) > 400
    assert missing(simulator, names) == []


def test_every_function_that_nvidia_smi_calls_exists(simulator: Path, smi: Smi) -> None:
    """The names stand in the program as texts for dlsym, each between two zero bytes."""
    texts = smi.program.read_bytes().split(b"\0")
    names = {text.decode() for text in texts if NAME.fullmatch(text)}
    assert len(names) > 200
    assert missing(simulator, names) == []
