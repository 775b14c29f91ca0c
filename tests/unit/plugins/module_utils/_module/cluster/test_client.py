# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import client as cluster_client
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.objects import read_objects

pytest.importorskip("kubernetes", reason="only where Ansible reads a cluster")
NODES = [{"kind": "Node"}]


def write_kubeconfig(path: Path, port: int) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:%d" % port}}],
        "users": [{"name": "x", "user": {}}],
    }
    path.write_text(json.dumps(config))


def test_a_server_that_does_not_respond(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It accepts connections, and the client itself has no time limit."""
    monkeypatch.setattr(cluster_client, "_LIMIT", 1)
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "kubeconfig"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.getsockname()[1])
        with pytest.raises(Failure, match="the API server has not responded for 1 seconds"):
            Client().use(read_objects, NODES)


def test_a_kubeconfig_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client itself does not name it."""
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(Failure, match="No configuration found in .*/absent$"):
        Client().use(read_objects, NODES)


def test_it_connects_again_only_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    connections: t.List[object] = []

    def connect() -> object:
        connections.append(object())
        return connections[-1]

    def fails(_connected: object) -> t.NoReturn:
        raise ConnectionError

    monkeypatch.setattr(cluster_client, "_connect", connect)
    client = Client()
    assert client.use(lambda connected, number: (connected, number), 5) == (connections[0], 5)
    assert client.use(lambda connected: connected) is connections[0]
    with pytest.raises(Failure, match="ConnectionError"):
        client.use(fails)
    assert client.use(lambda connected: connected) is connections[1]


def test_the_time_limit_includes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig may name a program that prints credentials."""
    monkeypatch.setattr(cluster_client, "_LIMIT", 0.1)
    monkeypatch.setattr(cluster_client, "_connect", lambda: time.sleep(60))
    with pytest.raises(Failure, match="has not responded"):
        Client().use(lambda connected: connected)


def test_a_missing_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ansible_collections.kubernetes.core.plugins.module_utils.k8s.client", None)
    with pytest.raises(Failure, match="the collection kubernetes.core is missing: install it"):
        Client().use(read_objects, NODES)


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(Failure, match=r"Failed to import the required Python library \(kubernetes\)"):
        Client().use(read_objects, NODES)
