# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import client as cluster_client
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import objects as cluster_objects

pytest.importorskip("kubernetes", reason="only where Ansible reads a cluster")


class Failed(Exception):
    """In place of the exit of a module."""


def fail(msg: str) -> t.NoReturn:
    raise Failed(msg)


def test_a_server_that_does_not_respond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It accepts connections, and the client itself has no time limit."""
    monkeypatch.setattr(cluster_client, "_LIMIT", 1)
    params = {"objects": [{"kind": "Node", "api_version": "v1"}]}
    module: t.Any = SimpleNamespace(params=params, check_mode=False, fail_json=fail, warn=print)
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:%d" % server.getsockname()[1]}}],
            "users": [{"name": "x", "user": {}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "kubeconfig"))
        with pytest.raises(Failed, match="the API server has not responded for 1 seconds"):
            cluster_client.use(module, cluster_objects.read)


def test_a_kubeconfig_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client itself does not name it."""
    params = {"objects": [{"kind": "Node", "api_version": "v1"}]}
    module: t.Any = SimpleNamespace(params=params, check_mode=False, fail_json=fail, warn=print)
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(Failed, match="No configuration found in .*/absent$"):
        cluster_client.use(module, cluster_objects.read)
