# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder of a run, which other users must not read or replace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import run_cleaner, run_folder, runs
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.runs_support import run_of, temporary


@pytest.fixture(name="no_cleaner")
def fixture_no_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cleaner, "start", lambda _directory: None)
    monkeypatch.setattr(runs, "controller", os.getpid)  # the parent of the first process of a namespace has no PID


@pytest.mark.usefixtures("no_cleaner")
def test_the_folder_of_a_run_that_was_killed_is_removed(tmp_path: Path, own: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        active, killed, elsewhere, damaged = (
            run_folder.prepare(temporary(tmp_path / ("ansible-local-" + name)))
            for name in ("active", "killed", "elsewhere", "damaged")
        )
        ended, other = run_of(process.pid), run_of(os.getpid())._replace(place="other", written=0)
        process.kill()
    (killed / "run.json").write_text(json.dumps(ended))
    (elsewhere / "run.json").write_text(json.dumps(other))
    (damaged / "run.json").write_text("[" * 100_000)
    (killed.parent / "content-of-the-module-copy").write_text("token")
    folder = run_folder.prepare(own)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(tmp_path.iterdir()) == sorted([active.parent, damaged.parent, own])


@pytest.mark.usefixtures("no_cleaner")
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
    run_folder.prepare(own)
    assert all((directory / "gpufleet" / "run.json").exists() for directory in (shared, unrelated, target))
    assert run_folder._is_abandoned(target)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not run_folder._is_abandoned(target)


@pytest.mark.usefixtures("no_cleaner")
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, own: Path, mode: int) -> None:
    with pytest.raises(PermissionError, match="with mode 0700"):
        run_folder.prepare(temporary(tmp_path / "ansible-local-x", mode))
    temporary(own / "gpufleet", mode)
    with pytest.raises(PermissionError, match="with mode 0700"):
        run_folder.prepare(own)


@pytest.mark.usefixtures("no_cleaner")
def test_a_local_tmp_that_another_user_may_replace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have created it in a directory of all users, or all users may rename it."""
    shared = temporary(tmp_path / "shm", 0o1777)
    run_folder.prepare(temporary(temporary(shared / "ours") / "ansible-local-1"))
    stat, theirs = Path.stat, temporary(shared / "theirs")
    with monkeypatch.context() as patched:
        other = os.stat_result((0o40700, 0, 0, 2, 12345, 0, 0, 0, 0, 0))
        patched.setattr(Path, "stat", lambda self, **given: other if self == theirs else stat(self, **given))
        with pytest.raises(PermissionError, match="another user can replace .*/theirs in .*/shm: set local_tmp"):
            run_folder.prepare(temporary(theirs / "ansible-local-1"))
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="another user can replace .*/ours in"):
        run_folder.prepare(temporary(shared / "ours" / "ansible-local-2"))


def test_a_file_in_the_folder(tmp_path: Path) -> None:
    for text in ("one", "two"):
        run_folder.write(tmp_path / "file", text.encode())
        assert (tmp_path / "file").read_text() == text
    assert [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()] == [0o600]


def test_a_file_that_cannot_be_replaced_leaves_no_copy(tmp_path: Path) -> None:
    """It is a secret, and may be outside of the folder."""
    (tmp_path / "kubeconfig").mkdir()
    with pytest.raises(OSError, match="kubeconfig"):
        run_folder.write(tmp_path / "kubeconfig", b"token")
    assert [each.name for each in tmp_path.iterdir()] == ["kubeconfig"]
