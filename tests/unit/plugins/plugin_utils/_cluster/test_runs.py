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


@pytest.fixture(name="own")
def fixture_own(tmp_path: Path) -> Path:
    """Ansible's temporary directory for a run."""
    return temporary(tmp_path / "ansible-local-own")


def temporary(path: Path, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


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
    own: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    """Ansible removes its temporary directory after none of these."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        runs.write(runs.folder(own) / "kubeconfig", "token")
        process.send_signal(end)
    deadline = time.monotonic() + 30
    while own.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not own.exists()


def test_a_module_that_outlives_the_run_keeps_its_directory_for_temporary_files(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, Python would write the cache of the API's resources, and credentials, to /tmp."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        folder = runs.folder(own)
        runs.write(folder / "kubeconfig", "token")
        environment = {**os.environ, "TMPDIR": str(folder)}
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as module:
            process.kill()
            deadline = time.monotonic() + 30
            while len(list(folder.iterdir())) > 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(1.5)
            # By which the next run knows the directory, if the process that removes it is killed too.
            assert [each.name for each in folder.iterdir()] == ["run.json"]
            module.kill()
    while own.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not own.exists()


def test_files_of_a_run_stay_until_it_ends(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        started: list[list[str]] = []
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", lambda command, **_others: started.append(command))
            for _task in range(2):
                folder = runs.folder(own)
        (command,) = started
        with subprocess.Popen(command) as remover:
            with pytest.raises(subprocess.TimeoutExpired):
                remover.wait(1.5)
            assert folder.exists()
            process.kill()
        assert not folder.exists()


@pytest.mark.usefixtures("no_remover")
def test_the_folder_of_a_run_that_was_killed_is_removed(tmp_path: Path, own: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        active, killed, elsewhere, damaged = (
            runs.folder(temporary(tmp_path / ("ansible-local-" + name)))
            for name in ("active", "killed", "elsewhere", "damaged")
        )
        ended, other = run_of(process.pid), run_of(os.getpid())._replace(place="other", written=0)
        process.kill()
    (killed / "run.json").write_text(json.dumps(ended))
    (elsewhere / "run.json").write_text(json.dumps(other))
    (damaged / "run.json").write_text("[" * 100_000)
    (killed.parent / "content-of-the-module-copy").write_text("token")
    folder = runs.folder(own)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(tmp_path.iterdir()) == sorted([active.parent, damaged.parent, own])


@pytest.mark.usefixtures("no_remover")
def test_what_other_users_may_write_to_is_no_run(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With local_tmp in /tmp, other users can plant a record in a shared directory, a link, or one that never ends."""
    text = json.dumps(runs.current()._replace(pid=2**30))
    shared = temporary(tmp_path / "ansible-local-shared", 0o1777)
    unrelated = temporary(tmp_path / ".X11-unix")
    target = temporary(tmp_path / "target")
    for directory in (shared, unrelated, target):
        (temporary(directory / "gpufleet") / "run.json").write_text(text)
    (tmp_path / "ansible-local-link").symlink_to(target)
    temporary(tmp_path / "ansible-local-evil").joinpath("gpufleet").symlink_to("/".join(["x" * 300] * 9))
    runs.folder(own)
    assert all((directory / "gpufleet" / "run.json").exists() for directory in (shared, unrelated, target))
    assert runs._is_abandoned(target)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not runs._is_abandoned(target)


@pytest.mark.usefixtures("no_remover")
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, own: Path, mode: int) -> None:
    with pytest.raises(PermissionError, match="with mode 0700"):
        runs.folder(temporary(tmp_path / "ansible-local-x", mode))
    temporary(own / "gpufleet", mode)
    with pytest.raises(PermissionError, match="with mode 0700"):
        runs.folder(own)


@pytest.mark.usefixtures("no_remover")
def test_a_local_tmp_that_another_user_may_replace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have created it in a directory of all users, or all users may rename it."""
    shared = temporary(tmp_path / "shm", 0o1777)
    runs.folder(temporary(temporary(shared / "ours") / "ansible-local-1"))
    stat, theirs = Path.stat, temporary(shared / "theirs")
    with monkeypatch.context() as patched:
        other = os.stat_result((0o40700, 0, 0, 2, 12345, 0, 0, 0, 0, 0))
        patched.setattr(Path, "stat", lambda self, **given: other if self == theirs else stat(self, **given))
        with pytest.raises(PermissionError, match="another user can replace .*/theirs in .*/shm: set local_tmp"):
            runs.folder(temporary(theirs / "ansible-local-1"))
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="another user can replace .*/ours in"):
        runs.folder(temporary(shared / "ours" / "ansible-local-2"))


def test_a_file_that_another_user_has_created(tmp_path: Path) -> None:
    """A link from the name of a temporary file to one of theirs."""
    (tmp_path / ("kubeconfig.%d" % os.getpid())).write_text("theirs")
    runs.write(tmp_path / "kubeconfig", "token")
    assert (tmp_path / ("kubeconfig.%d" % os.getpid())).read_text() == "theirs"


def test_a_record_holds_no_node_for_ever() -> None:
    """Whoever may patch a node can name any process of this controller, such as the first."""
    now, held = int(time.time()), run_of(os.getpid())
    assert not runs.lets_go(held, 0)
    for shift in (-90_000, 90_000):
        old = held._replace(written=now + shift)
        assert runs.lets_go(old, 0)
        assert not runs.has_ended(old, 0), "the files of a run stay as long as its process runs"


def test_a_folder_that_has_been_replaced_by_a_link_is_not_emptied(tmp_path: Path, own: Path) -> None:
    home = temporary(tmp_path / "home")
    (home / "thesis").touch()
    (own / "gpufleet").symlink_to(home)
    with pytest.raises(OSError, match="gpufleet"):
        runs._remove(own)
    assert (home / "thesis").exists()


def test_a_file_in_the_folder(tmp_path: Path) -> None:
    for text in ("one", "two"):
        runs.write(tmp_path / "file", text)
        assert (tmp_path / "file").read_text() == text
    assert [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()] == [0o600]
