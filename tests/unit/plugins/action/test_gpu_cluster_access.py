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
from ansible_collections.gpufleet.node.plugins.plugin_utils import _runs
from ansible_collections.gpufleet.node.tests.unit.plugins.action.test_gpu_cluster import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.test_kubeconfig import config


@pytest.fixture(name="local", autouse=True)
def fixture_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(_runs, "controller", os.getpid)  # the parent of the first process of a namespace has no PID


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


def test_without_a_kubeconfig(tmp_path: Path) -> None:
    assert run() == {"changed": False, "folder": str(tmp_path / "gpufleet")}


def test_a_server_without_a_kubeconfig_hides_that_of_the_user() -> None:
    """Which may be of another cluster."""
    assert Path(run(kubeconfig="", server="gpu-1")["kubeconfig"]).read_text() == ""
