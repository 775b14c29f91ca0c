# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Readers-writer lock: calls run concurrently, a reset is exclusive."""

from __future__ import annotations

import contextlib
import threading
import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .remedies import remedy

# No call to a healthy GPU takes this long.
_WAIT_SECONDS = 60.0


class ReadersWriterLock:
    """Calls share the lock. A reset waits for running calls and blocks new ones.

    If a call hangs, the reset fails with TIMEOUT, and other calls are not blocked.
    """

    def __init__(self, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._changed = threading.Condition()
        self._readers = 0
        self._has_writer = False

    @contextlib.contextmanager
    def shared(self) -> t.Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._has_writer)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> t.Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._has_writer)
            self._has_writer = True
            if not self._changed.wait_for(lambda: self._readers == 0, self._wait_seconds):
                self._has_writer = False
                self._changed.notify_all()
                raise BackendError(
                    codes.TIMEOUT,
                    "reset",
                    "a call for another GPU has not returned after %g seconds" % self._wait_seconds,
                    remedy(codes.TIMEOUT),
                    waited=True,
                )
        try:
            yield
        finally:
            with self._changed:
                self._has_writer = False
                self._changed.notify_all()
