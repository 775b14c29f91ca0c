# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a run that holds a node has ended."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.runs_support import run_of


def test_a_process_that_its_parent_does_not_wait_for_has_ended() -> None:
    """As in a container whose first process waits for no others."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        run = run_of(process.pid)
        assert not runs.has_ended(run, 0)
        process.kill()
        deadline = time.monotonic() + 30
        while not runs.has_ended(run, 3600) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert runs.has_ended(run, 3600) and process.returncode is None


def test_a_process_of_another_user_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the mount option hidepid of /proc."""
    run = run_of(os.getpid())
    monkeypatch.setattr(runs, "_started", lambda _pid: "")
    assert not runs.has_ended(run, 0)


def test_the_machine_id_of_the_controller_is_not_disclosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is an annotation of the node."""
    identity = "0123456789abcdef0123456789abcdef"
    monkeypatch.setattr(Path, "read_bytes", lambda _self: identity.encode() + b"\n")
    place = runs.current().place
    assert identity not in place and place == runs.current().place


def test_the_controller_is_known_after_its_end() -> None:
    """Workers of a process that was killed go on."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def orphan(own: t.Any, parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(0.01)
        own.send(runs.controller())

    def controller(own: t.Any) -> None:
        context.Process(target=orphan, args=(own, os.getpid())).start()
        os._exit(0)

    process = context.Process(target=controller, args=(sender,))
    process.start()
    assert receiver.poll(30) and receiver.recv() == process.pid
    process.join()


def test_a_record_holds_no_node_for_ever() -> None:
    """Whoever may patch a node can name any process of this controller, such as the first."""
    now, held = int(time.time()), run_of(os.getpid())
    assert not runs.record_expired(held, 0)
    for shift in (-90_000, 90_000):
        old = held._replace(written=now + shift)
        assert runs.record_expired(old, 0)
        assert not runs.has_ended(old, 0), "the files of a run stay as long as its process runs"
