# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which driver a node gets."""

from __future__ import annotations

import typing as t

from . import errors
from .command import Runner
from .command import run as run_command
from .errors import DriverError
from .nvml import NvmlDriver

if t.TYPE_CHECKING:
    from .base import Driver

AUTO = "auto"
NVIDIA_SMI = "nvidia_smi"
NAMES = (AUTO, NvmlDriver.name, NVIDIA_SMI)
# With these there is no NVML to talk to; anything else nvidia-smi would run into as well.
_UNAVAILABLE = (errors.LIBRARY_NOT_FOUND, errors.FUNCTION_NOT_FOUND)


def open_driver(choice: str = AUTO, run: Runner = run_command) -> Driver:
    """An opened driver: NVML, and with ``auto`` nvidia-smi where pynvml or the library is missing.

    Raises DriverError; if neither can be opened, with what both lack.
    """
    if choice == NVIDIA_SMI:
        return _smi(run)
    try:
        return _opened(NvmlDriver(run))
    except DriverError as error:
        if choice != AUTO or error.code not in _UNAVAILABLE:
            raise
        first = error
    try:
        return _smi(run)
    except DriverError as second:
        raise DriverError(first.code, first.call, "%s; and %s" % (first.detail, second), first.remedy) from second


def _smi(run: Runner) -> Driver:
    from .smi import SmiDriver  # large, and rarely used

    return _opened(SmiDriver(run))


def _opened(driver: Driver) -> Driver:
    driver.open()
    return driver
