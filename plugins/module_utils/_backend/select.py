# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select the backend of a node."""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .command import Runner
from .command import run as run_command
from .nvml import NvmlBackend

if t.TYPE_CHECKING:
    from .._mig.backend import Backend

AUTO = "auto"
NVIDIA_SMI = "nvidia_smi"
NAMES = (AUTO, NvmlBackend.name, NVIDIA_SMI)
# Errors that mean NVML is unavailable. nvidia-smi would fail with any other error too.
_UNAVAILABLE = (codes.LIBRARY_NOT_FOUND, codes.FUNCTION_NOT_FOUND)


def open_backend(choice: str = AUTO, run: Runner = run_command) -> Backend:
    """An opened backend: NVML, or with ``auto`` nvidia-smi if pynvml or the library is missing.

    Raises BackendError, with both reasons if neither can be opened.
    """
    if choice == NVIDIA_SMI:
        return _smi(run)
    try:
        return _opened(NvmlBackend(run))
    except BackendError as error:
        if choice != AUTO or error.code not in _UNAVAILABLE:
            raise
        first = error
    try:
        return _smi(run)
    except BackendError as second:
        raise BackendError(first.code, first.call, "%s; and %s" % (first.detail, second), first.remedy) from second


def _smi(run: Runner) -> Backend:
    from .smi import SmiBackend  # large, and rarely used

    return _opened(SmiBackend(run))


def _opened(backend: Backend) -> Backend:
    backend.open()
    return backend
