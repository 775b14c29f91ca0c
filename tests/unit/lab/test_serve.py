# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's web server and proxy."""

from __future__ import annotations

import contextlib
import functools
import http.server
import tempfile
import threading
import typing as t
import urllib.request
from pathlib import Path

import pytest
from gpulab import serve


@contextlib.contextmanager
def server(handler: t.Any) -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d" % running.server_port
        running.shutdown()


def test_the_proxy_works_after_the_run_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary directory of that run is gone."""
    (tmp_path / "InRelease").write_text("a list of packages")
    monkeypatch.setattr(serve, "ARCHIVE", tmp_path / "archive")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    files = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with server(files) as upstream, server(functools.partial(serve.Handler, directory=str(tmp_path))) as proxy:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
        assert opener.open(upstream + "/InRelease", timeout=10).read() == b"a list of packages"
