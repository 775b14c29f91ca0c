# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The time limit of a run, which also ends it if a call of the driver hangs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t

from .report import RETRY_REMEDY, Report

if t.TYPE_CHECKING:
    from .._mig.model import Gpu


class Limit:
    """The deadline, and the operations in progress."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.converging: t.Dict[int, Gpu] = {}
        self.hanging = False  # a thread has not returned from the driver


@contextlib.contextmanager
def limited(seconds: float, report: Report, status: int) -> t.Iterator[Limit]:
    """Exit the process with ``status`` when the time limit expires, even if a driver call hangs."""
    limit = Limit(seconds)

    def expire() -> None:
        for gpu in list(limit.converging.values()):
            report.error("%s does not respond, and may be partially configured" % gpu.label)
        report.error(
            "Not done after %g seconds: the driver or a GPU does not respond. GPUs may be partially configured. "
            "Check dmesg and nvidia-smi. %s: existing instances are kept, missing ones are created"
            % (seconds, RETRY_REMEDY)
        )
        os._exit(status)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()
