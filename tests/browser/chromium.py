# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A page in headless Chromium, controlled through the pipes of its DevTools protocol.

As a program: exit status 0 if a browser is installed.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe")
# The protocol uses the file descriptors 3 and 4.
SHELL = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
Data = t.Dict[str, t.Any]


def program() -> t.Optional[str]:
    """The installed browser."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with a loaded page: the URLs that it has requested, and what its console shows."""

    def __init__(self, command: str, profile: Path, page: Path) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", SHELL, "sh", command, *OPTIONS, "--user-data-dir=%s" % profile],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._numbers = itertools.count(1)
        self._session: Data = {}
        self.requests: t.List[str] = []
        self.console: t.List[Data] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(domain + ".enable")
        self._call("Page.navigate", url=page.as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_details: object) -> None:
        self._process.communicate()  # it ends with its input

    def evaluate(self, script: str) -> t.Any:
        """The value of an expression in the page, or of its promise."""
        found = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _call(self, method: str, **parameters: t.Any) -> Data:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while True:
            found = self._read()
            if found.get("id") == number:
                return t.cast("Data", found["result"])

    def _read(self) -> Data:
        """The next message, a response or an event. A zero byte ends it."""
        assert self._process.stdout
        content = bytearray()
        while not content.endswith(b"\0"):
            byte = self._process.stdout.read(1)
            assert byte, "the browser has ended"
            content += byte
        message: Data = json.loads(content[:-1])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.console.append(message)
        return message


if __name__ == "__main__":
    sys.exit(program() is None)
