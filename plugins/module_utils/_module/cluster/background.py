# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Functions that run beside the caller, who need not wait until they end."""

from __future__ import annotations

import contextvars
import threading
import typing as t
from concurrent.futures import Future

T = t.TypeVar("T")


def start(function: t.Callable[[], T]) -> Future[T]:
    """Run a function in a thread that ends with the process at the latest; its result, or the error that it raises."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    # Ansible keeps the current task in the context of the thread.
    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return future
