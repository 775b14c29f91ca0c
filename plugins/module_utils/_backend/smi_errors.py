# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Map failures of nvidia-smi to NVML return codes.

The command prints the text of NVML's error and usually exits with its number, but sometimes
with 0, 1 or 255, so the text takes precedence.
"""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .command import CommandResult
from .remedies import remedy

# In order of precedence: a message may contain several, and the more specific ones come first.
_WORDS: t.Tuple[t.Tuple[str, int], ...] = (
    ("insufficient permissions", codes.NO_PERMISSION),
    ("make sure /dev/nvidia* files are readable", codes.NO_PERMISSION),
    ("in use by another client", codes.IN_USE),
    ("currently in use by another process", codes.IN_USE),
    ("currently being used by one or more other processes", codes.IN_USE),
    ("insufficient resources", codes.INSUFFICIENT_RESOURCES),
    ("insufficient size", codes.INSUFFICIENT_SIZE),
    ("invalid argument", codes.INVALID_ARGUMENT),
    ("invalid placement syntax", codes.INVALID_ARGUMENT),
    ("gpu is lost", codes.GPU_IS_LOST),
    ("gpu requires reset", codes.RESET_REQUIRED),
    ("driver/library version mismatch", codes.LIB_RM_VERSION_MISMATCH),
    ("couldn't communicate with the nvidia driver", codes.DRIVER_NOT_LOADED),
    ("driver not loaded", codes.DRIVER_NOT_LOADED),
    ("couldn't find libnvidia-ml.so", codes.LIBRARY_NOT_FOUND),
    ("nvml shared library not found", codes.LIBRARY_NOT_FOUND),
    ("function not found", codes.FUNCTION_NOT_FOUND),
    ("mismatch in versions between nvidia-smi and nvml", codes.LIB_RM_VERSION_MISMATCH),
    ("resource not in correct state", codes.INVALID_STATE),
    ("reset type not supported", codes.RESET_TYPE_NOT_SUPPORTED),
    ("must be reset together", codes.RESET_TYPE_NOT_SUPPORTED),
    ("is the primary gpu", codes.RESET_TYPE_NOT_SUPPORTED),
    ("is in vgpu mode", codes.RESET_TYPE_NOT_SUPPORTED),
    ("timeout", codes.TIMEOUT),
    ("uninitialized", codes.UNINITIALIZED),
    ("not supported", codes.NOT_SUPPORTED),
    ("no mig-enabled devices found", codes.NOT_SUPPORTED),
    ("no mig-supported devices found", codes.NOT_SUPPORTED),
    ("not found", codes.NOT_FOUND),
    ("unknown error", codes.UNKNOWN),
)


def code_of(result: CommandResult) -> int:
    """The NVML return code for a failed command."""
    text = (result.out + result.err).lower()
    for words, code in _WORDS:
        if words in text:
            return code
    if result.rc in codes.NAMES and result.rc not in (codes.SUCCESS, codes.UNINITIALIZED):
        return result.rc
    return codes.UNKNOWN


def failure(command: str, result: CommandResult) -> BackendError:
    code = code_of(result)
    return BackendError(code, command, output_of(result) or "exit status %d" % result.rc, remedy(code))


def output_of(result: CommandResult) -> str:
    """The output of the command on one line."""
    lines = [line.strip() for line in (result.out + "\n" + result.err).splitlines()]
    return " ".join(line for line in lines if line)[:1000]
