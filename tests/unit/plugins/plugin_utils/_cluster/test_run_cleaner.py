# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that removes the folder of a run when the run has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import run_cleaner, run_folder, runs
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.runs_support import temporary


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_that_ends_the_run_leaves_no_folder(
    own: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    """Ansible removes its temporary directory after none of these."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(runs, "controller", lambda: process.pid)
        run_folder.write(run_folder.prepare(own) / "kubeconfig", b"token")
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
        folder = run_folder.prepare(own)
        run_folder.write(folder / "kubeconfig", b"token")
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
                folder = run_folder.prepare(own)
        (command,) = started
        with subprocess.Popen(command) as cleaner:
            with pytest.raises(subprocess.TimeoutExpired):
                cleaner.wait(1.5)
            assert folder.exists()
            process.kill()
        assert not folder.exists()


def test_a_folder_that_has_been_replaced_by_a_link_is_not_emptied(tmp_path: Path, own: Path) -> None:
    home = temporary(tmp_path / "home")
    (home / "thesis").touch()
    (own / "gpufleet").symlink_to(home)
    with pytest.raises(OSError, match="gpufleet"):
        run_cleaner._remove(own)
    assert (home / "thesis").exists()
