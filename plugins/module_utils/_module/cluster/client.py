# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The Kubernetes client of kubernetes.core."""

from __future__ import annotations

import contextvars
import os
import threading
import typing as t
from concurrent.futures import TimeoutError as NoResult

from . import background

T = t.TypeVar("T")

_TIMEOUT = 120  # seconds. The client would wait for ever for a server that accepts connections only
_STOP_EVENT: contextvars.ContextVar[threading.Event] = contextvars.ContextVar("stopped")  # of the thread's function
_MAX_RESPONSE = 1 << 29  # bytes of a response; 20,000 pods have about 200 MB


class Failure(Exception):
    """The client is missing or has no configuration, or the API does not respond or rejects the request."""


class Client:
    """Connects with the first request, and again after one that failed.

    The configuration is in the environment variables of kubernetes.core, such as K8S_AUTH_KUBECONFIG.
    """

    def __init__(self) -> None:
        self._connected: t.Any = None

    def use(self, function: t.Callable[..., T], *arguments: t.Any) -> T:
        """The result of a function that gets kubernetes.core's client and the arguments. Raises Failure."""
        stopped = threading.Event()

        def work() -> T:
            _STOP_EVENT.set(stopped)
            self._connected = self._connected or _connect()
            return function(self._connected, *arguments)

        try:
            return background.start(work).result(_TIMEOUT)
        except NoResult:
            message = "the API server has not responded for %d seconds" % _TIMEOUT
        except Exception as error:  # the client has many, and some have no common base class
            message = str(error) or type(error).__name__
        stopped.set()  # the function may still run
        self._connected = None
        if message.endswith("No configuration found."):
            message = "%s in %s" % (message[:-1], _kubeconfig())
        raise Failure(message)


def _connect() -> t.Any:
    try:
        from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
        from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import requires
    except ImportError as error:
        raise Failure(
            "the collection kubernetes.core is missing: install it with ansible-galaxy collection install "
            "kubernetes.core"
        ) from error
    requires("kubernetes")  # a clear message if the Python library is missing
    connected = get_api_client()
    _limit_responses(connected.client.client.rest_client.pool_manager)
    return connected


def _limit_responses(manager: t.Any) -> None:
    """Have requests follow no redirect, refuse longer responses, and not begin after the time of their function."""
    import urllib3

    if "request" in vars(manager):  # kubernetes.core keeps the client of a configuration
        return
    send = manager.request

    def request(method: str, url: str, **options: t.Any) -> t.Any:
        stopped = _STOP_EVENT.get(None)  # None: not in this class
        if stopped is not None and stopped.is_set():
            raise Failure("the request was stopped")
        # The caller repeats what a server is too busy for.
        retries = urllib3.Retry(3, respect_retry_after_header=False)
        response = send(method, url, **{**options, "redirect": False, "retries": retries, "preload_content": False})
        try:
            body = response.read(_MAX_RESPONSE + 1)
            if len(body) > _MAX_RESPONSE:
                raise Failure("a response of the API server is longer than %d MiB" % (_MAX_RESPONSE >> 20))
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return urllib3.HTTPResponse(
            body=body, headers=response.headers, status=response.status, reason=response.reason, decode_content=False
        )

    manager.request = request


def _kubeconfig() -> str:
    """The path that the client reads."""
    return os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or "~/.kube/config"
