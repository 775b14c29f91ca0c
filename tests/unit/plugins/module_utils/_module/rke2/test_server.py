# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server responds and accepts the token."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import server as rke2_server

CERTIFICATES = b"-----BEGIN CERTIFICATE-----"
HASH = hashlib.sha256(CERTIFICATES).hexdigest()
SECURE = "K10%s::server:right" % HASH
URL = "https://192.0.2.1:9345"


class Server:
    """Accepts the given users with the password "right"."""

    def __init__(self, *users: str) -> None:
        self.accepted = [rke2_server._basic(user, "right") for user in users]
        self.requests: t.List[str] = []

    def __call__(self, url: str, headers: t.Mapping[str, str], certificates: bytes) -> t.Tuple[int, bytes]:
        self.requests.append(url)
        if url.endswith("/cacerts"):
            return 200, CERTIFICATES
        assert certificates == CERTIFICATES
        return (200, b"ok") if headers["Authorization"] in self.accepted else (401, b"")


def test_a_token_that_fits() -> None:
    assert rke2_server.token_problems(URL, SECURE, Server("server")) == []


def test_a_token_that_is_rejected() -> None:
    (problem,) = rke2_server.token_problems(URL, SECURE.replace("right", "wrong"), Server("server", "node"))
    assert problem.startswith("the server %s rejects rke2_token" % URL)
    assert "wrong" not in problem


def test_a_token_of_another_cluster_is_not_sent() -> None:
    server = Server("server")
    (problem,) = rke2_server.token_problems(URL, SECURE.replace(HASH, "0" * 64), server)
    assert problem.startswith("rke2_token belongs to another cluster than " + URL)
    assert server.requests == [URL + "/cacerts"]


@pytest.mark.parametrize("token", ["right", "wrong", "abcdef.0123456789abcdef"])
def test_a_token_without_a_checksum_is_not_sent(token: str) -> None:
    """Whoever listens there could keep it."""
    server = Server()
    assert rke2_server.token_problems(URL, token, server) == []
    assert server.requests == []


def test_what_cannot_be_found_out_is_no_problem() -> None:
    assert rke2_server.token_problems(URL, SECURE, lambda *_: (0, b"")) == []
    assert rke2_server.token_problems(URL, "K10%s::abcdef.0123456789abcdef" % HASH, Server()) == []
    assert (
        rke2_server.token_problems(URL, SECURE, lambda url, *_: (200 if "cacerts" in url else 500, CERTIFICATES)) == []
    )


def test_the_token_of_the_server_on_the_node() -> None:
    assert rke2_server.own_problems("", SECURE) == rke2_server.own_problems("x", "") == []
    assert rke2_server.own_problems("right", SECURE) == rke2_server.own_problems(SECURE, "right") == []
    # Other servers have the former token until they are restarted.
    assert "run rke2 token rotate there, and the role with an empty" in rke2_server.own_problems("wrong", SECURE)[0]


def test_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert rke2_server._unreachable("127.0.0.1", port) == ""
    assert rke2_server._unreachable("127.0.0.1", port) == "Connection refused"


def test_a_server_without_tls_gives_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "https://127.0.0.1:%d" % server.getsockname()[1]
    assert rke2_server.fetch(address + "/cacerts", {}, b"") == (0, b"")


def response(answer: bytes, pause: float = 0.0) -> t.Tuple[int, bytes]:
    """What a server returns that sends these bytes, the last one again and again if there is a pause between them."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _address = server.accept()
            with connection, contextlib.suppress(OSError):  # the client has closed it
                connection.recv(10000)
                connection.sendall(answer)
                while pause:
                    time.sleep(pause)
                    connection.sendall(answer[-1:])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        found = rke2_server.fetch("http://127.0.0.1:%d/cacerts" % server.getsockname()[1], {}, b"")
        thread.join(10)
    return found


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\na", b"HTTP/1.0 200 OK\r\na", b"H"])
def test_a_response_without_end(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens on the server's port must not hold the run."""
    monkeypatch.setattr(rke2_server, "TIMEOUT", 1)
    start = time.monotonic()
    assert response(answer, pause=0.01) == (0, b"")
    assert time.monotonic() - start < 5


def test_a_large_response_is_cut() -> None:
    assert len(response(b"HTTP/1.0 200 OK\r\n\r\n" + b"a" * (1 << 22))[1]) == 1 << 20


def test_a_response_that_is_not_http() -> None:
    assert response(b"\0\r\n\r\n") == (0, b"")
