# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Signals that would end the process between two writes wait for the end of the change.

Ctrl-C, a cancelled job and a lost connection send SIGINT, SIGTERM and SIGHUP.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import typing as t

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal arrived before the first write. The message is its name."""


class Ending:
    """How signals end this process: as usual at first, later by ``interrupt``, and not at all after ``defer``."""

    def __init__(self) -> None:
        self._names: t.List[str] = []
        self._deferred = False
        self._previous: t.Dict[signal.Signals, t.Any] = {}

    def interrupt(self) -> None:
        """From now on, a signal raises Interrupted, so that the caller can restore what it prepared."""
        if self._previous or threading.current_thread() is not threading.main_thread():
            return  # Python handles signals only in the main thread
        for number in _ENDING:
            found = signal.getsignal(number)
            if found not in (signal.SIG_IGN, None):  # what is ignored (nohup) stays ignored
                self._previous[number] = found
                signal.signal(number, self._handle)
                signal.siginterrupt(number, False)  # no system call of the driver's library fails with EINTR

    def defer(self) -> None:
        """From now on, signals have no effect, also on the commands and threads that this process starts."""
        self._deferred = True
        self.interrupt()
        # Commands inherit this: a terminal sends signals to them too. The handlers are for threads that exist already.
        signal.pthread_sigmask(signal.SIG_BLOCK, self._previous)

    @property
    def received(self) -> t.List[str]:
        """Names of the signals since ``defer``."""
        waiting = signal.sigpending() if self._deferred else set()
        # Kept: an older thread, which does not block it, may take a waiting signal at any time.
        self._names = list(dict.fromkeys([*self._names, *(each.name for each in self._previous if each in waiting)]))
        return self._names

    def close(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._previous)
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _handle(self, number: int, _frame: t.Any) -> None:
        name = signal.Signals(number).name
        if not self._deferred:
            raise Interrupted(name)
        self._names.append(name)


@contextlib.contextmanager
def deferred() -> t.Iterator[Ending]:
    """Defer signals in the block."""
    with contextlib.closing(Ending()) as ending:
        ending.defer()
        yield ending
