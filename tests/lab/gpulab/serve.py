# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The web server of the lab's repositories: bound to the nodes' gateway, and to nothing that the world can see."""

from __future__ import annotations

import functools
import http.server
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from .places import GATEWAY, LAB, PORT, LabError, alone

PID = LAB / "serve.pid"
LOG = LAB / "serve.log"
IP_FREEBIND = 15  # Linux: the address may come later, with the first node


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        super().server_bind()


def run(root: str) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=root)
    Server((GATEWAY, PORT), handler).serve_forever()


def ours(pid: int) -> bool:
    """Whether this process is our server, and not another that got its number."""
    try:
        return b"gpulab.serve" in Path("/proc/%d/cmdline" % pid).read_bytes()
    except OSError:
        return False


def running() -> int:
    """The server's process id, or 0."""
    pid = int(PID.read_text()) if PID.exists() else 0
    return pid if pid and ours(pid) else 0


def start(root: Path) -> None:
    with alone("serve"):
        if running():
            return
        with LOG.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gpulab.serve", str(root)],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        PID.write_text(str(process.pid))
        for _attempt in range(50):
            with socket.socket() as probe:
                probe.settimeout(1)
                probe.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
                if process.poll() is not None:
                    raise LabError("the web server ended at once: %s" % LOG.read_text()[-2000:])
                # Without a node the address is nobody's yet; then it is enough that the server lives.
                if probe.connect_ex((GATEWAY, PORT)) == 0:
                    return
            time.sleep(0.05)


def stop() -> None:
    pid = running()
    if pid:
        os.kill(pid, signal.SIGTERM)
    PID.unlink(missing_ok=True)


if __name__ == "__main__":
    run(sys.argv[1])
