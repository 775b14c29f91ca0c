# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The supervisor on port 9345, where nodes join."""

from __future__ import annotations

import base64
import binascii
import email.message
import hashlib
import hmac
import http.server
import json
import os
import ssl
import tempfile
import threading
import typing as t
from pathlib import Path

from . import certificates, client
from .processes import info, log

PORT = 9345
SECRETS = "/api/v1/namespaces/kube-system/secrets"
COST = {"n": 2**14, "r": 8, "p": 1}


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def password_hash(password: str, salt: bytes) -> str:
    digest = hashlib.scrypt(password.encode(), salt=salt, dklen=64, maxmem=2**26, **COST)
    return "$1:%s:14:8:1:%s" % (salt.hex(), base64.b64encode(digest).decode())


def password_matches(password: str, known: str) -> bool:
    try:
        salt = bytes.fromhex(known.split(":")[1])
    except (IndexError, ValueError):
        return False
    return hmac.compare_digest(password_hash(password, salt), known)


class Supervisor:
    """Answers the requests of nodes."""

    def __init__(
        self, tls: Path, passwords: t.Mapping[str, t.Sequence[str]], config: t.Mapping[str, t.Any], own_name: str
    ) -> None:
        self.tls, self.passwords, self.config, self.own_name = tls, passwords, config, own_name
        self.api: t.Optional[client.Api] = None  # until the API server is ready
        self._deferred: t.Dict[str, str] = {}

    def answer(self, path: str, headers: email.message.Message) -> bytes:
        if path in ("/cacerts", "/v1-rke2/cacerts"):
            return (self.tls / "server-ca.crt").read_bytes()
        if path == "/ping":
            return b"pong"
        self.authenticate(headers.get("Authorization", ""))
        name = path[len("/v1-rke2/") :] if path.startswith("/v1-rke2/") else ""
        if name == "config":
            return json.dumps(self.config).encode()
        if name == "readyz":
            if not self.api:
                raise Refused(500, "apiserver not ready")
            return b"ok"
        if name in ("server-ca.crt", "client-ca.crt"):
            return (self.tls / name).read_bytes()
        if name in ("serving-kubelet.crt", "client-kubelet.crt"):
            return self.node_certificate(name, headers)
        if name == "client-kube-proxy.crt":
            return self.issued("client-ca", "system:kube-proxy")
        raise Refused(404, "404 page not found")

    def authenticate(self, authorization: str) -> None:
        try:
            kind, encoded = authorization.split(" ", 1)
            name, _colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (ValueError, binascii.Error):
            raise Refused(401, "Unauthorized") from None
        accepted = self.passwords.get(name, ())
        if kind != "Basic" or not any(hmac.compare_digest(password.encode(), each.encode()) for each in accepted):
            raise Refused(401, "Unauthorized")

    def node_certificate(self, name: str, headers: email.message.Message) -> bytes:
        node, password = headers.get("rke2-Node-Name", "").lower(), headers.get("rke2-Node-Password", "")
        addresses = [each for each in headers.get("rke2-Node-IP", "").split(",") if each]
        for value, what in ((node, "name"), (password, "password")):
            if not value:
                raise Refused(400, "node %s not set" % what)
        self.check_password(node, password)
        if name == "client-kubelet.crt":
            return self.issued("client-ca", "system:node:" + node, "system:nodes")
        return self.issued("server-ca", node, usage="server", names=[node, "localhost", "127.0.0.1", *addresses])

    def check_password(self, node: str, password: str) -> None:
        if not self.api:
            # rke2 checks its own node's password later.
            if node != self.own_name:
                raise Refused(503, "runtime core not ready")
            self._deferred[node] = password
            return
        path = "%s/%s.node-password.rke2" % (SECRETS, node)
        try:
            secret = self.api.get(path)
        except client.RequestError as problem:
            if problem.status != 404:
                raise Refused(500, str(problem)) from problem
            self.create_secret(node, password)
            return
        known = base64.b64decode(secret.get("data", {}).get("hash", "")).decode()
        if not password_matches(password, known):
            log("error", "unable to verify password for node %s: unable to verify hash for node '%s'" % (node, node))
            raise Refused(403, "Forbidden")

    def create_secret(self, node: str, password: str) -> None:
        assert self.api
        hashed = password_hash(password, os.urandom(8))
        content = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": node + ".node-password.rke2"},
            "immutable": True,
            "data": {"hash": base64.b64encode(hashed.encode()).decode()},
        }
        self.api.request("POST", SECRETS, content)

    def ready(self, api: client.Api) -> None:
        """The API server is ready: run the deferred checks."""
        self.api = api
        for node, password in self._deferred.items():
            try:
                self.check_password(node, password)
            except Refused as problem:
                log("error", "Deferred node password secret validation failed: %s" % problem)

    def issued(
        self, signer: str, user: str, group: str = "", usage: str = "client", names: t.Sequence[str] = ()
    ) -> bytes:
        with tempfile.TemporaryDirectory(dir=self.tls) as folder:
            made = certificates.issue(self.tls / signer, Path(folder, "new"), user, group, usage, names)
            return Path("%s.crt" % made).read_bytes() + Path("%s.key" % made).read_bytes()

    def serve(self, address: str, pair: Path, port: int = PORT) -> int:
        """Answer requests in the background; return the port."""
        supervisor = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                status = 200
                try:
                    content = supervisor.answer(self.path.partition("?")[0], self.headers)
                except Refused as problem:
                    status, content = problem.status, (str(problem) + "\n").encode()
                    if status == 401:
                        where = "%s:%d" % self.client_address[:2]
                        log(
                            "error",
                            "Failed to authenticate request from %s: invalid username/password combination" % where,
                        )
                    else:
                        log(
                            "error",
                            "Sending HTTP/1.1 %d response to %s: %s" % (status, self.client_address[0], problem),
                        )
                except Exception as problem:
                    status, content = 500, b"500 Internal Server Error\n"
                    log("error", "%s: %s" % (self.path, problem))
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: t.Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def finish_request(self, request: t.Any, client_address: t.Any) -> None:
                # The thread does the handshake, so a silent client does not block other clients.
                request.settimeout(30)
                with tls.wrap_socket(request, server_side=True) as wrapped:
                    super().finish_request(t.cast(t.Any, wrapped), client_address)

            def handle_error(self, request: t.Any, client_address: t.Any) -> None:
                pass

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain("%s.crt" % pair, "%s.key" % pair)
        server = Server((address, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        info("Supervisor listening on %s:%d" % (address, server.server_port))
        return server.server_port
