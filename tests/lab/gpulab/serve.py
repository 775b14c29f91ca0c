# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's web server, which listens on the nodes' gateway and, for virtual machines, on loopback only.

It serves the lab's repositories, and is the nodes' caching proxy for other package archives: a second run downloads
only the archives' indexes, and an air-gapped node can use it as a mirror.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from .places import GATEWAY, LAB, LOOPBACK, PORT, LabError, alone, fingerprint, processes

ARCHIVE = LAB / "archive"
IMMUTABLE = (".deb", ".rpm")  # files whose content never changes

LOG = LAB / "serve.log"
IP_FREEBIND = 15  # Linux: bind to an address that exists only while there are nodes


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        super().server_bind()


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        if not address.scheme:
            super().do_GET()
        elif address.netloc.partition(":")[0] == GATEWAY:  # a request for our own files through the proxy
            self.path = address.path
            super().do_GET()
        else:
            self.pass_on()

    def pass_on(self) -> None:
        kept = ARCHIVE / hashlib.sha256(self.path.encode()).hexdigest()
        lasting = self.path.endswith(IMMUTABLE) or "/by-hash/" in self.path
        if lasting and kept.exists():
            with kept.open("rb") as stream:
                self.answer(stream, kept.stat().st_size)
            return
        try:
            ARCHIVE.mkdir(exist_ok=True)
            # Not in TMPDIR: the server outlives the run that started it, and its temporary directory.
            with urllib.request.urlopen(self.path, timeout=60) as upstream, tempfile.TemporaryFile(
                dir=ARCHIVE
            ) as whole:
                shutil.copyfileobj(upstream, whole)
                size = whole.tell()
                if lasting:
                    whole.seek(0)
                    self.keep(whole, kept)
                whole.seek(0)
                self.answer(whole, size, upstream.headers.get("Last-Modified"))
        except urllib.error.HTTPError as problem:
            self.send_error(problem.code)
        except OSError as problem:
            self.send_error(502, str(problem)[:100].replace("\n", " "))

    def keep(self, source: t.BinaryIO, kept: Path) -> None:
        with tempfile.NamedTemporaryFile(dir=ARCHIVE, delete=False) as new:
            shutil.copyfileobj(source, new)
        os.replace(new.name, kept)

    def answer(self, stream: t.BinaryIO, size: int, modified: t.Optional[str] = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        if modified:
            self.send_header("Last-Modified", modified)
        self.end_headers()
        shutil.copyfileobj(stream, self.wfile)


def run(root: str) -> None:
    handler = functools.partial(Handler, directory=root)
    servers = [Server((address, PORT), handler) for address in (GATEWAY, LOOPBACK)]
    threading.Thread(target=servers[0].serve_forever, daemon=True).start()
    servers[1].serve_forever()


def command_line(root: Path) -> t.List[str]:
    """The server's command line, with its version, so that an outdated server can be recognised."""
    return [sys.executable, "-m", "gpulab.serve", str(root), fingerprint(Path(__file__))]


def running() -> t.Dict[int, t.List[str]]:
    """Command lines of this checkout's servers, by process id; normally one."""
    return processes("gpulab.serve", LAB)


def start(root: Path) -> None:
    with alone("serve"):
        if list(running().values()) == [command_line(root)]:
            return
        stop()
        with LOG.open("a") as log:
            process = subprocess.Popen(
                command_line(root),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _attempt in range(50):
            with socket.socket() as probe:
                if process.poll() is not None:
                    raise LabError("the web server did not start: %s" % LOG.read_text()[-2000:])
                # On loopback, because the gateway's address does not exist without a node.
                if probe.connect_ex((LOOPBACK, PORT)) == 0:
                    return
            time.sleep(0.05)


def stop() -> None:
    for pid in running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while running():
        time.sleep(0.02)


if __name__ == "__main__":
    run(sys.argv[1])
