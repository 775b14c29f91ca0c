# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small client of the Kubernetes API for pods, which use their service account."""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import time
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = 30
PAUSE = 2.0  # seconds between two rounds, or before a retry

Object = t.Dict[str, t.Any]


class ApiError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S ") + text, flush=True)


def start(original: str) -> None:
    """Log which stand-in runs, and exit on SIGTERM, which PID 1 of a container ignores by default."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))
    say("gpufleet lab's stand-in for %s" % original)


def restart(reason: str) -> None:
    """Replace the process by a new one of the same program."""
    say("%s: starting again" % reason)
    os.execv(sys.executable, [sys.executable, "-I", *sys.argv])


def reload_on_hangup() -> None:
    """Read the configuration again on SIGHUP, as the originals do."""
    signal.signal(signal.SIGHUP, lambda _number, _frame: restart("received SIGHUP"))


class Client:
    def __init__(self, manager: str) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self._url = "https://%s:%s" % ("[%s]" % host if ":" in host else host, port)
        handler = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
        self._manager = manager

    def request(self, method: str, path: str, body: t.Any = None, kind: str = "application/json") -> Object:
        token = (ACCOUNT / "token").read_text().strip()  # the kubelet renews it
        headers = {"Authorization": "Bearer " + token, "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return t.cast(Object, json.load(answer))
        except urllib.error.HTTPError as problem:
            raise ApiError(problem.code, "%s %s: %s" % (method, path, message(problem))) from problem
        except OSError as problem:
            raise ApiError(0, "%s %s: %s" % (method, path, problem)) from problem

    def get(self, path: str) -> t.Optional[Object]:
        """An object, or None if it does not exist."""
        try:
            return self.request("GET", path)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    def items(self, path: str) -> t.List[Object]:
        return t.cast(t.List[Object], self.request("GET", path)["items"])

    def delete(self, path: str) -> None:
        try:
            self.request("DELETE", path)
        except ApiError as problem:
            if problem.status != 404:
                raise

    def merge(self, path: str, changes: Object) -> None:
        self.request("PATCH", path, changes, "application/merge-patch+json")

    def apply(self, path: str, wanted: Object) -> Object:
        """Apply an object server-side, which also removes fields that an earlier call set."""
        query = "?fieldManager=%s&force=true" % self._manager
        return self.request("PATCH", path + query, wanted, "application/apply-patch+yaml")

    def label_node(self, name: str, labels: t.Mapping[str, t.Optional[str]]) -> None:
        self.merge("/api/v1/nodes/" + name, {"metadata": {"labels": dict(labels)}})


def message(problem: urllib.error.HTTPError) -> str:
    text = problem.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return "status %d: %s" % (problem.code, text[:500])


def labels_of(item: Object) -> t.Dict[str, str]:
    return t.cast(t.Dict[str, str], item["metadata"].get("labels") or {})


def selector(wanted: str) -> str:
    return "?labelSelector=" + urllib.request.quote(wanted)  # type: ignore[attr-defined]


def forever(step: t.Callable[[], None], pause: float = PAUSE) -> t.NoReturn:
    """Repeat a step. Log a failure only if it differs from the previous one."""
    last_error = ""
    while True:
        try:
            step()
            last_error = ""
        except ApiError as problem:
            if str(problem) != last_error:
                last_error = str(problem)
                say("will retry: " + last_error)
        time.sleep(pause)


def environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        sys.exit("the environment variable %s is required" % name)
    return value
