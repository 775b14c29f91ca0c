# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module rke2_server: check whether a server responds, and accepts a token with a checksum. Changes nothing."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import os
import re
import signal
import socket
import ssl
import typing as t
import urllib.error
import urllib.parse
import urllib.request

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "url": {"type": "str", "default": ""},
        "token": {"type": "str", "default": "", "no_log": True},
        "data_path": {"type": "path", "required": True},
        "required": {"type": "bool", "default": False},
    }
}
TIMEOUT = 10  # seconds for each request
_MAX_RESPONSE_BYTES = 1 << 20  # bytes of a response

# A token is K10, the checksum of the cluster's CA certificates, user and password; or only the password.
_SECURE = re.compile(r"K10([0-9a-f]{64})::([^:]+):(.+)")
_BOOTSTRAP = re.compile(r"(K10[0-9a-f]{64}::)?[a-z0-9]{6}\.[a-z0-9]{16}")  # a kubeadm token, which expires
_REJECTED = 401

# Requests a URL with headers, verified with the CA certificates if given. Returns status and content.
Fetch = t.Callable[[str, t.Mapping[str, str], bytes], t.Tuple[int, bytes]]


def run(module: AnsibleModule) -> None:
    given = module.params
    own = _text(os.path.join(given["data_path"], "server", "token"))
    problems = own_problems(given["token"], own)
    if given["url"] and not problems:
        address = urllib.parse.urlsplit(given["url"])
        why = _unreachable(address.hostname or "", address.port or 0)
        if why:
            problems = [_NO_ANSWER % (given["url"], why)] if given["required"] else []
        elif given["token"]:
            problems = token_problems(given["url"], given["token"], fetch)
    module.exit_json(changed=False, problems=problems)


_NO_ANSWER = (
    "the server %s does not respond (%s). Start RKE2 there, open the ports 9345 and 6443 to this node, or correct "
    "rke2_api_ip"
)


def password(token: str) -> str:
    match = _SECURE.fullmatch(token)
    return match.group(3) if match else token


def own_problems(token: str, own: str) -> t.List[str]:
    """Whether the token differs from that of the server on this node, which encrypts the cluster's data."""
    if not token or not own or password(token) == password(own):
        return []
    return [
        "rke2_token differs from the token that created the cluster, so RKE2 would not start. Change the token with "
        "rke2 token rotate first, or correct rke2_token"
    ]


def token_problems(url: str, token: str, get: Fetch) -> t.List[str]:
    """Whether the server rejects the token. Empty if unknown.

    Without a checksum, the token proves nothing about the server, which therefore must not get it.
    """
    secure = _SECURE.fullmatch(token)
    if not secure or _BOOTSTRAP.fullmatch(token):
        return []
    status, certificates = get(url + "/cacerts", {}, b"")
    if status != 200:
        return []
    checksum, user, secret = secure.groups()
    if hashlib.sha256(certificates).hexdigest() != checksum:
        return [
            "rke2_token belongs to another cluster than %s: its checksum of the CA certificates does not match. Use the "
            "content of server/node-token in RKE2's data directory on that server" % url
        ]
    if get(url + "/v1-rke2/readyz", {"Authorization": _basic(user, secret)}, certificates)[0] == _REJECTED:
        return [
            "the server %s rejects rke2_token. Use the content of server/node-token in RKE2's data directory there, or "
            "leave rke2_token empty: the role then reads it from the first server" % url
        ]
    return []


def _basic(user: str, secret: str) -> str:
    return "Basic " + base64.b64encode(("%s:%s" % (user, secret)).encode()).decode()


def fetch(url: str, headers: t.Mapping[str, str], certificates: bytes) -> t.Tuple[int, bytes]:
    """Status and content; status 0 if there is no response."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the chain and the host name
    # Python 3.13 rejects CA certificates without certain extensions, which RKE2 accepts.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if certificates:
        context.load_verify_locations(cadata=certificates.decode("ascii", "replace"))
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Ignore proxy variables: servers are in the node's own network.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with _limited(), opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=TIMEOUT) as answer:
            return answer.status, answer.read(_MAX_RESPONSE_BYTES)
    except urllib.error.HTTPError as error:
        return error.code, b""
    except (OSError, ValueError, http.client.HTTPException):
        return 0, b""


@contextlib.contextmanager
def _limited() -> t.Iterator[None]:
    """Raise TimeoutError after the time limit, which sockets only have for each part of a response."""

    def stop(*_arguments: t.Any) -> t.NoReturn:
        raise TimeoutError("no response in %d seconds" % TIMEOUT)

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _unreachable(host: str, port: int) -> str:
    """Why the connection fails; empty if it succeeds."""
    try:
        with socket.create_connection((host, port), TIMEOUT):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read().strip()
    except OSError:
        return ""
