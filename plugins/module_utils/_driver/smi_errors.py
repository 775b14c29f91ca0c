# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a failed nvidia-smi means, as an NVML return code.

The command prints NVML's error in words and mostly exits with its number, but exits with
0, 1 or 255 in places, so the words count first.
"""

from __future__ import annotations

import typing as t

from . import errors
from .command import Result
from .errors import DriverError
from .remedies import remedy

# In order: a message may hold several, and the more telling one stands first.
_WORDS: t.Tuple[t.Tuple[str, int], ...] = (
    ("insufficient permissions", errors.NO_PERMISSION),
    ("in use by another client", errors.IN_USE),
    ("currently in use by another process", errors.IN_USE),
    ("currently being used by one or more other processes", errors.IN_USE),
    ("insufficient resources", errors.INSUFFICIENT_RESOURCES),
    ("insufficient size", errors.INSUFFICIENT_SIZE),
    ("invalid argument", errors.INVALID_ARGUMENT),
    ("invalid placement syntax", errors.INVALID_ARGUMENT),
    ("gpu is lost", errors.GPU_IS_LOST),
    ("gpu requires reset", errors.RESET_REQUIRED),
    ("driver/library version mismatch", errors.LIB_RM_VERSION_MISMATCH),
    ("couldn't communicate with the nvidia driver", errors.DRIVER_NOT_LOADED),
    ("driver not loaded", errors.DRIVER_NOT_LOADED),
    ("couldn't find libnvidia-ml.so", errors.LIBRARY_NOT_FOUND),
    ("nvml shared library not found", errors.LIBRARY_NOT_FOUND),
    ("function not found", errors.FUNCTION_NOT_FOUND),
    ("mismatch in versions between nvidia-smi and nvml", errors.LIB_RM_VERSION_MISMATCH),
    ("resource not in correct state", errors.INVALID_STATE),
    ("reset type not supported", errors.RESET_TYPE_NOT_SUPPORTED),
    ("must be reset together", errors.RESET_TYPE_NOT_SUPPORTED),
    ("is the primary gpu", errors.RESET_TYPE_NOT_SUPPORTED),
    ("is in vgpu mode", errors.RESET_TYPE_NOT_SUPPORTED),
    ("timeout", errors.TIMEOUT),
    ("uninitialized", errors.UNINITIALIZED),
    ("not supported", errors.NOT_SUPPORTED),
    ("no mig-enabled devices found", errors.NOT_SUPPORTED),
    ("no mig-supported devices found", errors.NOT_SUPPORTED),
    ("not found", errors.NOT_FOUND),
    ("unknown error", errors.UNKNOWN),
)


def code_of(result: Result) -> int:
    """The NVML return code that a failed command stands for."""
    text = (result.out + result.err).lower()
    for words, code in _WORDS:
        if words in text:
            return code
    if result.rc in errors.NAMES and result.rc not in (errors.SUCCESS, errors.UNINITIALIZED):
        return result.rc
    return errors.UNKNOWN


def failure(command: str, result: Result) -> DriverError:
    code = code_of(result)
    return DriverError(code, command, words_of(result) or "exit status %d" % result.rc, remedy(code))


def words_of(result: Result) -> str:
    """What the command printed, on one line."""
    lines = [line.strip() for line in (result.out + "\n" + result.err).splitlines()]
    return " ".join(line for line in lines if line)[:1000]
