# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.readers_writer_lock import ReadersWriterLock
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError


def test_readers_run_concurrently():
    lock, meeting = ReadersWriterLock(), threading.Barrier(3, timeout=60)

    def reader():
        with lock.shared():
            meeting.wait()

    threads = [threading.Thread(target=reader) for _number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meeting.broken


def test_a_writer_waits_for_readers_and_blocks_new_ones():
    lock, order = ReadersWriterLock(), []
    inside, leave = threading.Event(), threading.Event()

    def first_reader():
        with lock.shared():
            inside.set()
            leave.wait()
            order.append("first reader")

    def writer():
        with lock.exclusive():
            late.start()  # called while the writer has the lock
            order.append("writer")

    def late_reader():
        with lock.shared():
            order.append("late reader")

    late = threading.Thread(target=late_reader)
    threads = [threading.Thread(target=first_reader), threading.Thread(target=writer)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    leave.set()
    for thread in threads + [late]:
        if thread is late:
            threads[1].join()
        thread.join()
    assert order == ["first reader", "writer", "late reader"]


@pytest.mark.parametrize("way", ["shared", "exclusive"])
def test_an_exception_releases_the_lock(way):
    lock = ReadersWriterLock()
    with pytest.raises(ValueError), getattr(lock, way)():
        raise ValueError
    with lock.exclusive():
        pass
    with lock.shared():
        pass


def test_a_writer_times_out_on_a_hanging_reader_and_unblocks_others():
    lock = ReadersWriterLock(wait_seconds=0.05)
    with lock.shared():
        with pytest.raises(BackendError) as caught, lock.exclusive():
            pass
        assert caught.value.code == codes.TIMEOUT
        with lock.shared():
            pass
    with lock.exclusive():
        pass
