# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which driver a module uses: the one that was asked for, or the first that can be used on the node."""

from __future__ import annotations

import contextlib
import typing as t

from .._driver import errors
from .._driver.errors import DriverError

if t.TYPE_CHECKING:
    from .._driver.base import Driver

CHOICES = ("auto", "nvml", "nvidia_smi")
# Where the one is missing, the other may be there. Every other failure is the same for both.
_MISSING = (errors.LIBRARY_NOT_FOUND, errors.FUNCTION_NOT_FOUND)


def candidates(choice: str) -> t.Tuple[Driver, ...]:
    """The drivers to try for a choice, the best first."""
    names = CHOICES[1:] if choice == "auto" else (choice,)
    return tuple(_driver(name) for name in names)


def _driver(name: str) -> Driver:
    """Imported only where it is used: most runs need one of them."""
    if name == "nvml":
        from .._driver.nvml import NvmlDriver

        return NvmlDriver()
    from .._driver.smi import SmiDriver

    return SmiDriver()


@contextlib.contextmanager
def opened(drivers: t.Sequence[Driver]) -> t.Iterator[Driver]:
    """The first driver that is there, open. Raises DriverError with all reasons if none is."""
    missing: t.List[DriverError] = []
    for driver in drivers:
        try:
            driver.open()
        except DriverError as error:
            driver.close()
            if error.code not in _MISSING:
                raise
            missing.append(error)
            continue
        try:
            yield driver
        finally:
            driver.close()
        return
    raise _none(missing)


def _none(missing: t.Sequence[DriverError]) -> DriverError:
    if len(missing) == 1:
        return missing[0]
    first = missing[0]
    return DriverError(first.code, first.call, first.detail, "%s. Nor is there another way: %s" % (first.remedy, missing[-1]))
