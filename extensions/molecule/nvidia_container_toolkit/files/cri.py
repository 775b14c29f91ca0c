# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use a container runtime through CRI, as the kubelet does.

    cri.py SOCKET
    cri.py SOCKET configuration
    cri.py SOCKET run REQUEST

The first form prints the programs of the runtimes: {"runc": "", "nvidia": "/usr/bin/nvidia-container-runtime"}. The
second prints containerd's running configuration. The third starts pods, one after the other, and prints the list of
their outputs. All output is JSON. Exits with status 1 and prints the reason if the runtime is not ready or a call fails.

REQUEST has the keys "pods", "image", "command" and "cgroup_parent". Each pod may have "handler" (that of a
RuntimeClass), "device" (the CDI name that the kubelet would request) and "environment". It has one container and uses
the network of the node, so that no CNI plugin is needed.

Distributions do not package a client, so the calls of the Container Runtime Interface v1 are implemented here: gRPC
sends Protocol Buffers messages on an HTTP/2 stream.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import sys
import time
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
LOGS = "/var/log/pods/gpufleet"
EXITED = 2  # state of a container
NODE = 2  # namespace mode: the node's namespaces
UNCONFINED = 1  # security profile

Value = t.Union[str, int, bytes]


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
                    raise NotReady("the call was refused: %r" % content)
                elif kind == DATA:
                    received += content
                if kind in (DATA, HEADERS) and flags & END_OF_STREAM:
                    break
    if len(received) < 5:
        raise NotReady("%s failed: the CRI plugin is not loaded, or returned an error" % method)
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


def number(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def message(*given: t.Tuple[int, Value]) -> bytes:
    """Encode a message from the numbers and values of its fields."""
    made = b""
    for place, value in given:
        if isinstance(value, int):
            made += number(place << 3) + number(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            made += number(place << 3 | 2) + number(len(content)) + content
    return made


def configuration(path: str) -> t.Dict[str, t.Any]:
    """Return the running configuration of a runtime that is ready."""
    conditions: t.Dict[bytes, t.Dict[int, t.Any]] = {}
    info: t.Dict[bytes, bytes] = {}
    for name, content in fields(answer(path, "Status", message((1, True)))):  # verbose
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


def run(path: str, request: t.Mapping[str, t.Any], pod: t.Mapping[str, t.Any]) -> str:
    """Start a pod, wait until its container exits, remove it, and return its output."""

    def call(method: str, *given: t.Tuple[int, Value]) -> t.Dict[int, t.Any]:
        return dict(fields(answer(path, method, message(*given))))

    profile = message((1, UNCONFINED))
    namespaces = message((1, NODE))
    config = message(
        (1, message((1, "gpufleet"), (2, "gpufleet"), (3, "default"))),
        (3, LOGS),
        (8, message((1, request["cgroup_parent"]), (2, message((1, namespaces), (9, profile), (10, profile))))),
    )
    sandbox = call("RunPodSandbox", (1, config), (2, pod.get("handler", "")))[1]
    try:
        container = message(
            (1, message((1, "only"))),
            (2, message((1, request["image"]))),
            *((3, word) for word in request["command"]),
            *((6, message((1, name), (2, value))) for name, value in pod.get("environment", {}).items()),
            (11, "log"),
            (15, message((2, message((3, namespaces), (15, profile), (16, profile))))),
            *((17, message((1, name))) for name in [pod.get("device")] if name),
        )
        made = call("CreateContainer", (1, sandbox), (2, container), (3, config))[1]
        call("StartContainer", (1, made))
        status: t.Dict[int, t.Any] = {}
        for _attempt in range(100):
            status = dict(fields(call("ContainerStatus", (1, made))[1]))
            if status.get(3) == EXITED:
                break
            time.sleep(0.1)
        with open(os.path.join(LOGS, "log"), encoding="utf-8") as log:
            output = "".join(line.split(" ", 3)[3] for line in log)  # time, stream, tag, output
        if status.get(3) != EXITED or status.get(7, 0):
            raise NotReady("the command failed: %s" % output)
        return output
    finally:
        call("StopPodSandbox", (1, sandbox))
        call("RemovePodSandbox", (1, sandbox))
        shutil.rmtree(LOGS)


def main(path: str, action: str = "", request: str = "{}") -> None:
    result: t.Any
    try:
        if action == "run":
            wanted = json.loads(request)
            result = [run(path, wanted, pod) for pod in wanted["pods"]]
        else:
            result = configuration(path) if action == "configuration" else runtimes(path)
    except (NotReady, OSError) as problem:
        sys.exit("%s: %s; see journalctl -u containerd" % (path, problem))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
