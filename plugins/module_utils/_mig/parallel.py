# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Call a function for several GPUs at once, so that a slow driver call delays a node only once."""

from __future__ import annotations

import threading
import time
import typing as t

_T = t.TypeVar("_T")


def over(count: int, call: t.Callable[[int], _T]) -> t.List[_T]:
    """The results of ``call`` for 0 to ``count`` - 1, in order. The first exception is raised after all calls ended."""
    if count < 2:
        return [call(index) for index in range(count)]
    found: t.Dict[int, _T] = {}
    failed: t.Dict[int, BaseException] = {}

    def attempt(index: int) -> None:
        try:
            found[index] = call(index)
        except BaseException as error:
            failed[index] = error

    run(count, attempt)
    for index in sorted(failed):
        raise failed[index]
    return [found[index] for index in range(count)]


def run(count: int, call: t.Callable[[int], None], seconds: t.Optional[float] = None) -> None:
    """Run ``call``, which must not raise, for 0 to ``count`` - 1. Returns after ``seconds`` if some of them hang.

    Plain threads, because a run without changes would spend more time on loading ``concurrent.futures``.
    """
    end = None if seconds is None else time.monotonic() + seconds
    threads = [threading.Thread(target=call, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if end is None else max(0.0, end - time.monotonic()))
