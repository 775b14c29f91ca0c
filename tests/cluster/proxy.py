# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy on loopback in front of an API server: it lists writes, can drop connections, and calls back after writes."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PARTS = {"certificate-authority-data": "ca.crt", "client-certificate-data": "user.crt", "client-key-data": "user.key"}
DROPPED = ("connection", "transfer-encoding", "content-length", "host", "accept-encoding")


class Proxy:
    def __init__(self, kubeconfig: Path, work: Path) -> None:
        found = json.loads(kubeconfig.read_text())
        secrets = {**found["clusters"][0]["cluster"], **found["users"][0]["user"]}
        for key, name in PARTS.items():
            (work / name).touch(mode=0o600)
            (work / name).write_bytes(base64.b64decode(secrets[key]))
        self._context = ssl.create_default_context(cafile=str(work / "ca.crt"))
        self._context.load_cert_chain(str(work / "user.crt"), str(work / "user.key"))
        self._server = urlsplit(secrets["server"])
        self._away = 0.0
        self.writes: t.List[str] = []  # methods and paths that the API server has accepted
        self.after_write: t.Callable[[int], None] = lambda _number: None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.forward(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

            def log_message(self, *_arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        cluster = {"server": "http://127.0.0.1:%d" % self._http.server_port}
        self.kubeconfig = work / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({**found, "clusters": [{"name": "gpufleet", "cluster": cluster}]}))

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def drop(self, seconds: float) -> None:
        """Drop all requests for some time, as if the API server was away."""
        self._away = time.monotonic() + seconds

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if time.monotonic() < self._away:
            request.close_connection = True
            return
        headers = {name: value for name, value in request.headers.items() if name.lower() not in DROPPED}
        upstream = http.client.HTTPSConnection(str(self._server.hostname), self._server.port, context=self._context)
        try:
            upstream.request(request.command, request.path, body or None, headers)
            response = upstream.getresponse()
            content = response.read()
        finally:
            upstream.close()
        if request.command != "GET" and response.status < 300:
            self.writes.append("%s %s" % (request.command, request.path.partition("?")[0]))
            self.after_write(len(self.writes))
        if time.monotonic() < self._away:  # the response is lost
            request.close_connection = True
            return
        request.send_response(response.status)
        request.send_header("Content-Type", response.getheader("Content-Type") or "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
