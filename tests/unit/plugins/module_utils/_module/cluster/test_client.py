# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import socket
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import client as cluster_client
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.requests import send

pytest.importorskip("kubernetes", reason="only where Ansible reads a cluster")
NODES = [{"verb": "read", "kind": "Node"}]


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
    monkeypatch.setattr(cluster_client, "_TIMEOUT", 1)
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "kubeconfig"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.getsockname()[1])
        with pytest.raises(Failure, match="the API server has not responded for 1 seconds"):
            Client().use(send, NODES, False)


def test_a_kubeconfig_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client itself does not name it."""
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(Failure, match="No configuration found in .*/absent$"):
        Client().use(send, NODES, False)


class Server(http.server.BaseHTTPRequestHandler):
    """An API server whose node ``redirect`` is elsewhere, ``endless`` has no end, and ``busy`` comes in an hour."""

    requests: t.ClassVar[t.List[str]] = []

    def do_GET(self) -> None:
        answers = {
            "/version": {"major": "1", "minor": "36"},
            "/apis": {"kind": "APIGroupList", "groups": []},
            "/api/v1": {
                "kind": "APIResourceList",
                "groupVersion": "v1",
                "resources": [{"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["get"]}],
            },
            "/api/v1/nodes/a": {"kind": "Node", "metadata": {"name": "a"}},
            "/elsewhere": {"kind": "Node", "metadata": {"name": "elsewhere"}},
        }
        self.requests.append(self.path)
        self.send_response({"redirect": 302, "busy": 503}.get(self.path.rpartition("/")[2], 200))
        self.send_header("Retry-After", "3000")
        self.send_header("Content-Type", "application/json")
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(self.path, {"filler": "x" * 5000})).encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(name="read")
def fixture_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Iterator[t.Callable[[str], t.Any]]:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for the client's cache
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_kubeconfig(tmp_path / "kubeconfig", server.server_address[1])
        client = Client()
        yield lambda name: client.use(send, [{**NODES[0], "name": name}], False)
        server.shutdown()


def test_redirects_and_long_responses(monkeypatch: pytest.MonkeyPatch, read: t.Callable[[str], t.Any]) -> None:
    assert read("a")[0]["resources"] == [{"kind": "Node", "metadata": {"name": "a"}}]
    (redirected,) = read("redirect")
    assert "resources" not in redirected and redirected["msg"].startswith("302")
    monkeypatch.setattr(cluster_client, "_MAX_RESPONSE", 4096)
    with pytest.raises(Failure, match="a response of the API server is longer than"):
        read("endless")
    assert read("a")[0]["resources"]


def test_a_busy_server_does_not_hold_the_request(read: t.Callable[[str], t.Any]) -> None:
    Server.requests.clear()
    (busy,) = read("busy")
    assert busy["msg"].startswith("503") and Server.requests.count("/api/v1/nodes/busy") == 1


def test_other_code_can_use_the_client_that_is_kept(read: t.Callable[[str], t.Any]) -> None:
    """kubernetes.core keeps it for a configuration: the same one has it in a lookup."""
    assert read("a")
    k8s = pytest.importorskip("ansible_collections.kubernetes.core.plugins.module_utils.k8s.client")
    assert k8s.get_api_client().resource("Node", "v1").get(name="a").metadata.name == "a"


@pytest.mark.parametrize("name", ["../configmaps", "a/status", "a?watch=1", "..", "a%2fb", "a b", ""])
def test_a_name_that_is_another_path(read: t.Callable[[str], t.Any], name: str) -> None:
    with pytest.raises(Failure, match="is not the name of an object"):
        read(name)


def test_a_function_sends_no_further_requests_after_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: t.Callable[[str], t.Any]
) -> None:
    """It may be evicting pods, while the run returns the node to service."""
    assert read("a")
    monkeypatch.setattr(cluster_client, "_TIMEOUT", 0.5)
    later: t.List[str] = []

    def slow(connected: t.Any) -> None:
        time.sleep(1)
        try:
            send(connected, [{**NODES[0], "name": "a"}], False)
        except Exception as error:
            later.append(str(error))

    with pytest.raises(Failure, match="has not responded"):
        Client().use(slow)
    deadline = time.monotonic() + 30
    while not later and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "the request was stopped" in later[0]


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
    monkeypatch.setattr(cluster_client, "_TIMEOUT", 0.1)
    monkeypatch.setattr(cluster_client, "_connect", lambda: time.sleep(60))
    with pytest.raises(Failure, match="has not responded"):
        Client().use(lambda connected: connected)


def test_a_missing_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ansible_collections.kubernetes.core.plugins.module_utils.k8s.client", None)
    with pytest.raises(Failure, match="the collection kubernetes.core is missing: install it"):
        Client().use(send, NODES, False)


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(Failure, match=r"Failed to import the required Python library \(kubernetes\)"):
        Client().use(send, NODES, False)
