# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_cluster_access."""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_access
from ansible_collections.gpufleet.node.tests.unit.plugins.action.test_gpu_cluster import action


@pytest.fixture(name="local", autouse=True)
def fixture_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))


def run(**arguments: t.Any) -> t.Dict[str, t.Any]:
    found: t.Dict[str, t.Any] = action(gpu_cluster_access, "gpu_cluster_access", arguments).run(task_vars={})
    return found


@pytest.mark.parametrize(
    ("server", "address", "expected"),
    [
        ("gpu-1", "127.0.0.1", "gpu-1"),
        ("192.0.2.1", "localhost", "192.0.2.1"),
        ("2001:db8::1", "[::1]", "[2001:db8::1]"),
        ("gpu-1", "10.0.0.1", "10.0.0.1"),
    ],
)
def test_loopback_addresses_become_those_of_the_server(server: str, address: str, expected: str) -> None:
    text = "server: https://%s:6443\n"
    result = run(kubeconfig=base64.b64encode((text % address).encode()).decode(), server=server)
    assert Path(result["kubeconfig"]).read_text() == text % expected


def test_without_a_kubeconfig(tmp_path: Path) -> None:
    assert run() == {"changed": False, "folder": str(tmp_path / "gpufleet")}


def test_a_server_without_a_kubeconfig_hides_that_of_the_user() -> None:
    """Which may be of another cluster."""
    assert Path(run(kubeconfig="", server="gpu-1")["kubeconfig"]).read_text() == ""
