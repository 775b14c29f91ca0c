# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_cluster_access."""

from __future__ import annotations

import base64
import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_access
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import run_cleaner, runs
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.kubeconfig_support import config


@pytest.fixture(name="local", autouse=True)
def fixture_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(runs, "controller", os.getpid)  # the parent of the first process of a namespace has no PID
    monkeypatch.setattr(run_cleaner, "start", lambda _directory: None)  # pytest removes it


def run(**arguments: t.Any) -> t.Dict[str, t.Any]:
    found: t.Dict[str, t.Any] = action(gpu_cluster_access, "gpu_cluster_access", arguments).run(task_vars={})
    return found


def given(text: str, **arguments: str) -> t.Dict[str, t.Any]:
    return run(kubeconfig=base64.b64encode(text.encode()).decode(), server="gpu-1", **arguments)


def test_the_kubeconfig_of_a_server() -> None:
    path = Path(given(config(), name="rke2-gpu-1")["kubeconfig"])
    assert path.name == "rke2-gpu-1"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["clusters"][0]["cluster"]["server"] == "https://gpu-1:6443"


def test_a_program_in_the_kubeconfig_of_a_server_is_refused(tmp_path: Path) -> None:
    result = given(config(user={"exec": {"command": "/tmp/evil"}}))
    assert "kubeconfig" not in result
    assert result["problem"].startswith("the kubeconfig of gpu-1 is refused: its user has exec")
    assert [path.name for path in (tmp_path / "gpufleet").iterdir()] == ["run.json"]


def test_a_directory_that_another_user_may_write_to_is_a_problem(tmp_path: Path) -> None:
    """The task has no_log, which would hide an error."""
    tmp_path.chmod(0o777)
    result = given(config())
    assert result.keys() == {"changed", "problem"}
    assert "is not a directory of this user with mode 0700" in result["problem"]


def test_the_kubeconfig_of_a_server_writes_no_control_characters_to_the_terminal() -> None:
    assert "user has ]0;owned, which" in given(config(user={"\x1b]0;owned\x07": ""}))["problem"]


def test_without_a_kubeconfig(tmp_path: Path) -> None:
    assert run() == {"changed": False, "folder": str(tmp_path / "gpufleet")}


def test_a_server_without_a_kubeconfig_hides_that_of_the_user() -> None:
    """Which may be of another cluster."""
    assert Path(run(kubeconfig="", server="gpu-1")["kubeconfig"]).read_text() == ""


def test_a_kubeconfig_is_kept_for_its_user_only(tmp_path: Path) -> None:
    """Another user may have created the file, and must not own it afterwards."""
    source, kept = Path(given(config())["kubeconfig"]), tmp_path / "kept"
    kept.touch(mode=0o644)
    before = kept.stat().st_ino
    for expected in (True, False):
        assert run(keep=str(kept))["changed"] == expected
        assert kept.read_text() == source.read_text()
        assert (kept.stat().st_uid, kept.stat().st_mode & 0o777) == (os.geteuid(), 0o600)
    assert kept.stat().st_ino != before
    kept.chmod(0o644)
    assert run(keep=str(kept))["changed"]
    kept.unlink()
    kept.symlink_to(tmp_path / "other")
    assert run(keep=str(kept))["changed"]
    assert not kept.is_symlink() and not (tmp_path / "other").exists()
    result = run(keep=str(tmp_path / "kept" / "x"))
    assert result["failed"] and result["msg"].startswith("the kubeconfig cannot be kept: ")


def test_check_mode_keeps_nothing(tmp_path: Path) -> None:
    given(config())
    found = action(gpu_cluster_access, "gpu_cluster_access", {"keep": str(tmp_path / "kept")})
    found._task.check_mode = True
    assert found.run(task_vars={})["changed"] and not (tmp_path / "kept").exists()
