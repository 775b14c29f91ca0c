# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signals wait for the end of a change, in this process and in the commands that it starts."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import command, signals

ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize("thread", [False, True])
def test_a_signal_is_recorded_while_it_is_deferred(number, thread):
    """With a thread that exists before, which receives the signal."""
    before = signal.getsignal(number)
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _needed in range(thread)]
    for each in threads:
        each.start()
    with signals.deferred() as ending:
        assert ending.received == []
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        threading.Event().wait(0.01)
        assert ending.received == [number.name]
    done.set()
    assert signal.getsignal(number) is before
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_before_the_first_write_can_be_handled(number):
    ending = signals.Ending()
    ending.interrupt()
    try:
        with pytest.raises(signals.Interrupted, match=number.name):
            os.kill(os.getpid(), number)
        ending.defer()
        os.kill(os.getpid(), number)
        assert ending.received == [number.name]
    finally:
        ending.close()


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with signals.deferred() as ending:
            os.kill(os.getpid(), signal.SIGHUP)
            assert ending.received == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_a_thread_nothing_is_handled():
    """Python refuses it there."""
    seen = []

    def defer():
        with signals.deferred() as ending:
            seen.append(ending.received)

    thread = threading.Thread(target=defer)
    thread.start()
    thread.join()
    assert seen == [[]]


def test_commands_are_not_ended_by_a_signal_to_the_terminal():
    argv = ["/bin/sh", "-c", "kill -s INT $$; kill -s HUP $$; kill -s TERM $$; echo done"]
    assert command.run(argv) == (-signal.SIGINT, "", "")
    found = []
    with signals.deferred():
        thread = threading.Thread(target=lambda: found.append(command.run(argv)))
        thread.start()
        thread.join()
    assert found == [(0, "done\n", "")]
