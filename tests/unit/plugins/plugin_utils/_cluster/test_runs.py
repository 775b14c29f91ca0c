# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a run that holds a node has ended."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs


@pytest.fixture(name="no_remover")
def fixture_no_remover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_remove_at_end", lambda _directory: None)
    monkeypatch.setattr(runs, "controller", os.getpid)  # the parent of the first process of a namespace has no PID


def run_of(pid: int) -> runs.Run:
    return runs.current()._replace(pid=pid, started=runs._started(pid))


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


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_that_ends_the_run_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    """Ansible removes its temporary directory after none of these."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        (tmp_path / "own").mkdir()
        runs.write(runs.folder(tmp_path / "own") / "kubeconfig", "token")
        process.send_signal(end)
    deadline = time.monotonic() + 30
    while (tmp_path / "own").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not (tmp_path / "own").exists()


def test_files_of_a_run_stay_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        started: list[list[str]] = []
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", lambda command, **_others: started.append(command))
            (tmp_path / "own").mkdir()
            for _task in range(2):
                folder = runs.folder(tmp_path / "own")
        (command,) = started
        with subprocess.Popen(command) as remover:
            with pytest.raises(subprocess.TimeoutExpired):
                remover.wait(1.5)
            assert folder.exists()
            process.kill()
        assert not folder.exists()


@pytest.mark.usefixtures("no_remover")
def test_the_folder_of_a_run_that_was_killed_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        for name in ("own", "active", "killed", "elsewhere", "unreadable"):
            (tmp_path / name).mkdir()
            runs.folder(tmp_path / name)
        ended, other = run_of(process.pid), run_of(os.getpid())._replace(place="other", written=0)
        process.kill()
    (tmp_path / "killed/gpufleet/run.json").write_text(json.dumps(ended))
    (tmp_path / "elsewhere/gpufleet/run.json").write_text(json.dumps(other))
    (tmp_path / "unreadable/gpufleet/run.json").write_text("")
    (tmp_path / "killed/content-of-the-module-copy").write_text("token")
    folder = runs.folder(tmp_path / "own")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in tmp_path.iterdir()) == ["active", "own", "unreadable"]


@pytest.mark.usefixtures("no_remover")
def test_folders_of_other_users_are_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With local_tmp in /tmp, other users can plant a folder beside it, or a link to one."""
    others = [tmp_path / "tmp" / "planted" / "gpufleet", tmp_path / "elsewhere" / "gpufleet"]
    for folder in others:
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(runs.current()._replace(pid=2**30)))
    (tmp_path / "tmp" / "own").mkdir()
    (tmp_path / "tmp" / "link").symlink_to(tmp_path / "elsewhere")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 12345)
        runs.folder(tmp_path / "tmp" / "own")
    assert [folder.exists() for folder in others] == [True, True]
    runs.folder(tmp_path / "tmp" / "own")
    assert [folder.exists() for folder in others] == [False, True]


def test_a_file_in_the_folder(tmp_path: Path) -> None:
    for text in ("one", "two"):
        runs.write(tmp_path / "file", text)
        assert (tmp_path / "file").read_text() == text
    assert [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()] == [0o600]
