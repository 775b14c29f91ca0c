# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Waiting for a cluster for a limited time, and showing why it is not complete."""

from __future__ import annotations

import itertools
import time
import typing as t
from concurrent import futures

from ...module_utils._module.cluster import background
from .._common.output import Reasons
from .responses import Denied, Final, Unreadable

T = t.TypeVar("T")
_DENIED_SECONDS = 30  # an API server that has just started may reject requests
_REMEDY = "%s. Check gpu_cluster_kubeconfig, gpu_cluster_context, and the permissions of the user"


def pauses() -> t.Iterator[int]:
    """Seconds between checks: short at first, because many changes take only a moment."""
    return itertools.chain((1, 2, 4), itertools.repeat(5))


def while_running(function: t.Callable[[], T], pause: float, show: t.Callable[[], None]) -> T:
    """The result of a function, or the error that it raises. Calls ``show`` after every pause, in seconds, until then."""
    running = background.start(function)
    while not futures.wait([running], pause).done:
        show()
    return running.result()


class Waiting(Exception):
    """The time has passed, and these are the reasons that remain."""

    def __init__(self, reasons: list[str], last: t.Any) -> None:
        super().__init__("; ".join(reasons))
        self.reasons, self.last = reasons, last  # the last value of the step; None if no request succeeded


class Progress:
    """Repeats a step for a limited time, and shows why it is not complete."""

    def __init__(self, timeout: int, show: t.Callable[[str], object]) -> None:
        self.timeout, self.show = timeout, show

    def result(self, title: str, step: t.Callable[[], T]) -> T:
        """The result of a step. Raises Unreadable if the API server does not respond in time."""
        try:
            return self.until_empty(title, lambda: (step(), []))
        except Waiting as error:
            raise Unreadable(str(error)) from None

    def until_empty(self, title: str, step: t.Callable[[], tuple[T, list[str]]]) -> T:
        """The value of a step, once it has no reasons to wait. An API server that does not respond is a reason.

        Raises Waiting, and Final.
        """
        last: T | None = None
        end, reasons = time.monotonic() + self.timeout, Reasons(self.show)
        denied: float | None = None  # since when
        intervals = pauses()
        while True:
            try:
                last, waiting = step()
                denied = None
                if not waiting:
                    return last
            except Final:
                raise
            except Unreadable as error:
                waiting = ["a request to the cluster failed: %s" % error]
                denied = (denied or time.monotonic()) if isinstance(error, Denied) else None
            now = time.monotonic()
            if denied and now - denied >= _DENIED_SECONDS:
                raise Final(_REMEDY % waiting[0])
            if now >= end:
                raise Waiting(waiting, last)
            reasons.show("%s, %d s left" % (title, end - now), "; ".join(waiting))
            time.sleep(next(intervals))
