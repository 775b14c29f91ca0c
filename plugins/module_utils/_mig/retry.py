# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Retry driver calls that failed with a transient error."""

from __future__ import annotations

import time
import typing as t

from . import codes
from .backend import BackendError

# Seconds before each retry.
PAUSES: t.Tuple[float, ...] = (0.1, 0.3, 1.0)
# Not TIMEOUT: a second read would time out too, and delay the other GPUs.
_TRANSIENT_READ_ERRORS = (codes.UNKNOWN,)
_TRANSIENT_WRITE_ERRORS = (codes.UNKNOWN, codes.TIMEOUT, codes.IN_USE, codes.INSUFFICIENT_RESOURCES)

_T = t.TypeVar("_T")


def read(call: t.Callable[[], _T]) -> _T:
    """The result of a call that changes nothing. Raises BackendError."""
    for pause in PAUSES:
        try:
            return call()
        except BackendError as error:
            if error.waited or error.code not in _TRANSIENT_READ_ERRORS:
                raise
        time.sleep(pause)
    return call()


def write(
    call: t.Callable[[], _T], read_result: t.Callable[[], t.Optional[_T]], on_retry: t.Callable[[BackendError], None]
) -> _T:
    """The result of a write.

    After a failure, ``read_result`` reads whether the write took effect, and returns its result, or None if it did not.
    Only then is the write retried, and ``on_retry`` called with the failure. Raises BackendError.
    """
    pauses = iter(PAUSES)
    while True:
        try:
            return call()
        except BackendError as error:
            try:
                result = read_result()
            except BackendError:
                raise error from None
            if result is not None:
                return result
            pause = next(pauses, None)
            if pause is None or error.waited or error.code not in _TRANSIENT_WRITE_ERRORS:
                raise
            on_retry(error)
        time.sleep(pause)
