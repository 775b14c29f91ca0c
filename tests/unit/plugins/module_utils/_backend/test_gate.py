# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.gate import Gate
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError


def test_calls_run_concurrently():
    gate, meeting = Gate(), threading.Barrier(3, timeout=60)

    def pass_through():
        with gate.passing():
            meeting.wait()

    threads = [threading.Thread(target=pass_through) for _number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meeting.broken


def test_closing_waits_for_running_calls_and_blocks_new_ones():
    gate, order = Gate(), []
    inside, leave = threading.Event(), threading.Event()

    def first():
        with gate.passing():
            inside.set()
            leave.wait()
            order.append("first")

    def closer():
        with gate.closed():
            late.start()  # called while the gate is closed
            order.append("closer")

    def latecomer():
        with gate.passing():
            order.append("latecomer")

    late = threading.Thread(target=latecomer)
    threads = [threading.Thread(target=first), threading.Thread(target=closer)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    leave.set()
    for thread in threads + [late]:
        if thread is late:
            threads[1].join()
        thread.join()
    assert order == ["first", "closer", "latecomer"]


@pytest.mark.parametrize("way", ["passing", "closed"])
def test_an_exception_releases_the_gate(way):
    gate = Gate()
    with pytest.raises(ValueError), getattr(gate, way)():
        raise ValueError
    with gate.closed():
        pass
    with gate.passing():
        pass


def test_closing_times_out_on_a_hanging_call_and_reopens():
    gate = Gate(close_seconds=0.05)
    with gate.passing():
        with pytest.raises(BackendError) as caught, gate.closed():
            pass
        assert caught.value.code == codes.TIMEOUT
        with gate.passing():
            pass
    with gate.closed():
        pass
