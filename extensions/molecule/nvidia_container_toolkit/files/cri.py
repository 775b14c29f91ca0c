# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Query a container runtime through CRI, as the kubelet does: its readiness and its runtimes.

    cri.py /run/containerd/containerd.sock

Prints the runtimes' programs in JSON: {"runc": "", "nvidia": "/usr/bin/nvidia-container-runtime"}. Exits with status 1
and prints the reason if no runtime is ready. Distributions do not package a client, so the one call, Status of the
Container Runtime Interface v1, is implemented here: gRPC sends Protocol Buffers messages on an HTTP/2 stream.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import typing as t

SECONDS = 10
WINDOW = 1 << 24  # bytes; a response has a few thousand
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_OF_STREAM, END_OF_HEADERS, ACKNOWLEDGED = 1, 4, 1
DEFAULT_HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "localhost",
    "content-type": "application/grpc",
    "te": "trailers",
}
VERBOSE = b"\x08\x01"  # field 1 of the request for the status: true


class NotReady(Exception):
    """The runtime reported an error or is not ready."""


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def literal(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def question(method: str, request: bytes) -> bytes:
    """All bytes of the request: the preface, the window size and the call."""
    call_headers = {":path": "/runtime.v1.RuntimeService/" + method, **DEFAULT_HEADERS}
    headers = b"".join(b"\x00" + literal(name) + literal(value) for name, value in call_headers.items())
    message = b"\x00" + struct.pack(">I", len(request)) + request
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW))
        + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))
        + frame(HEADERS, END_OF_HEADERS, 1, headers)
        + frame(DATA, END_OF_STREAM, 1, message)
    )


def exactly(stream: t.BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise NotReady("the connection was closed")
    return content


def answer(path: str, method: str, request: bytes) -> bytes:
    """Return the response message."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        connection.sendall(question(method, request))
        received = b""
        with connection.makefile("rb") as stream:
            while True:
                head = exactly(stream, 9)
                kind, flags = head[3], head[4]
                content = exactly(stream, int.from_bytes(head[:3], "big"))
                if kind in (SETTINGS, PING) and not flags & ACKNOWLEDGED:
                    connection.sendall(frame(kind, ACKNOWLEDGED, 0, content if kind == PING else b""))
                elif kind in (RESET, GOAWAY):
                    raise NotReady("it refused the call: %r" % content)
                elif kind == DATA:
                    received += content
                if kind in (DATA, HEADERS) and flags & END_OF_STREAM:
                    break
    if len(received) < 5:
        raise NotReady("%s was refused: the CRI plugin is not loaded, or not well" % method)
    return received[5:]


def fields(message: bytes) -> t.Iterator[t.Tuple[int, t.Any]]:
    """Yield the numbers and values of a message's fields."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = number()
        value: t.Union[int, bytes] = number()
        if key & 7 == 2:  # length-delimited
            size = t.cast(int, value)
            value, place = message[place : place + size], place + size
        yield key >> 3, value


def configuration(path: str) -> t.Dict[str, t.Any]:
    """Return the running configuration of a runtime that is ready."""
    conditions: t.Dict[bytes, t.Dict[int, t.Any]] = {}
    info: t.Dict[bytes, bytes] = {}
    for name, content in fields(answer(path, "Status", VERBOSE)):
        if name == 1:  # the status
            for _name, condition in fields(content):
                known = dict(fields(condition))
                conditions[known.get(1, b"")] = known
        elif name == 2:  # verbose information: a map
            entry = dict(fields(content))
            info[entry.get(1, b"")] = entry.get(2, b"")
    condition = conditions.get(b"RuntimeReady", {})
    if not condition.get(2):
        raise NotReady("the runtime is not ready: " + condition.get(4, b"it does not say why").decode())
    config: t.Dict[str, t.Any] = json.loads(info.get(b"config", b"{}").decode())
    return config


def runtimes(path: str) -> t.Dict[str, str]:
    """Return the programs of the runtimes; empty for containerd's default, runc."""
    found = (configuration(path).get("containerd") or {}).get("runtimes") or {}
    return {name: (each.get("options") or {}).get("BinaryName", "") for name, each in found.items()}


def main() -> None:
    try:
        print(json.dumps(runtimes(sys.argv[1])))
    except (NotReady, OSError) as problem:
        sys.exit("%s: %s" % (sys.argv[1], problem))


if __name__ == "__main__":
    main()
