# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests over HTTPS: to a supervisor, to the API server, to etcd."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import ssl
import typing as t
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from .processes import log

TIMEOUT = 10
OBJECT = t.Dict[str, t.Any]


class RequestError(Exception):
    """A failed request; ``status`` is 0 if there was no response."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def context(ca: t.Optional[str] = None, pair: t.Optional[Path] = None, insecure: bool = False) -> ssl.SSLContext:
    """``ca``: certificates in PEM format; ``pair``: path of a client's certificate and key, without suffix."""
    made = ssl.create_default_context(cadata=ca)
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if pair:
        made.load_cert_chain("%s.crt" % pair, "%s.key" % pair)
    return made


def send(
    url: str,
    tls: ssl.SSLContext,
    method: str = "GET",
    body: t.Optional[bytes] = None,
    headers: t.Optional[t.Mapping[str, str]] = None,
) -> bytes:
    request = urllib.request.Request(url, data=body, method=method, headers=dict(headers or {}))
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT) as answer:
            return t.cast(bytes, answer.read())
    except urllib.error.HTTPError as problem:
        raise RequestError("%s: %d %s" % (url, problem.code, problem.reason), problem.code) from problem
    except urllib.error.URLError as problem:
        raise RequestError('Get "%s": %s' % (url, reason(url, problem.reason))) from problem
    except OSError as problem:
        raise RequestError('Get "%s": %s' % (url, reason(url, problem))) from problem


def reason(url: str, problem: t.Union[str, BaseException]) -> str:
    """A network error in the words of Go's libraries."""
    host = urllib.parse.urlsplit(url).hostname
    where = "dial tcp %s" % urllib.parse.urlsplit(url).netloc
    if isinstance(problem, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: %s" % problem.verify_message
    if isinstance(problem, socket.gaierror):
        return "dial tcp: lookup %s: no such host" % host
    if isinstance(problem, socket.timeout):
        return "%s: i/o timeout" % where
    if isinstance(problem, OSError) and problem.errno:
        return "%s: connect: %s" % (where, (problem.strerror or str(problem)).lower())
    return str(problem)


def basic(user: str, password: str) -> t.Dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()}


class AuthorityError(RequestError):
    """The authorities of a cluster are unknown, or do not fit the token."""


class Api:
    """The Kubernetes API, or another one with JSON."""

    def __init__(self, url: str, ca: Path, pair: Path) -> None:
        self.url, self._tls = url, context(ca.read_text(), pair)

    def request(self, method: str, path: str, body: t.Any = None, kind: str = "application/json") -> OBJECT:
        content = None if body is None else json.dumps(body).encode()
        answer = send(self.url + path, self._tls, method, content, {"Content-Type": kind})
        try:
            return t.cast(OBJECT, json.loads(answer or b"{}"))
        except ValueError:
            return {"text": answer.decode(errors="replace")}

    def get(self, path: str) -> OBJECT:
        return self.request("GET", path)

    def merge(self, path: str, change: OBJECT) -> OBJECT:
        return self.request("PATCH", path, change, "application/merge-patch+json")


# --- Tokens -----------------------------------------------------------------------------------------------------------


class Token(t.NamedTuple):
    password: str
    user: str = ""
    ca_hash: str = ""


def parse_token(text: str) -> Token:
    """A token: a password, or K10<hash of the authorities>::<user>:<password>."""
    if not text:
        raise RequestError("token must not be empty")
    if not text.startswith("K10"):
        return Token(text)
    ca_hash, separator, rest = text[3:].partition("::")
    if not separator:
        ca_hash, rest = "", text[3:]
    if ca_hash and not re.fullmatch("[0-9a-f]{64}", ca_hash):
        raise RequestError("invalid token CA hash length")
    user, _colon, password = rest.partition(":")
    if not password:
        raise RequestError("invalid token format")
    return Token(password, user, ca_hash)


def authorities(url: str, token: Token) -> str:
    """The authorities of a cluster, checked against the token."""
    place = url.rstrip("/") + "/cacerts"
    try:
        text = send(place, context(insecure=True)).decode()
    except RequestError as problem:
        raise AuthorityError("failed to get CA certs: %s" % problem, problem.status) from problem
    try:
        send(place, context(text))
    except RequestError as problem:
        raise AuthorityError("CA cert validation failed: %s" % problem, problem.status) from problem
    found = hashlib.sha256(text.encode()).hexdigest()
    if token.ca_hash and token.ca_hash != found:
        raise AuthorityError(
            "token CA hash does not match the Cluster CA certificate hash: %s != %s" % (token.ca_hash, found)
        )
    if not token.ca_hash:
        log(
            "warning",
            "Cluster CA certificate is not trusted by the host CA bundle, but the token does not include a CA hash."
            " Use the full token from the server's node-token file to enable Cluster CA validation.",
        )
    return text
