# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a pod in containerd as the kubelet does, through the CRI plugin and the configured runtimes.

    kubelet.py configuration
    kubelet.py run HANDLER PARENT IMAGE DEVICE [NAME=VALUE...] -- COMMAND...

The first form prints containerd's running configuration. HANDLER is the handler of a RuntimeClass, PARENT the cgroup of
the pod, DEVICE the CDI name that the kubelet would request; each may be "". The pod has one container and uses the
network of the node, so that no CNI plugin is needed. Prints the output of the command and exits with its status. The
calls are made with cri.py in the same directory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import typing as t

import cri

SOCKET = "/run/containerd/containerd.sock"
LOGS = "/var/log/pods/gpufleet"
EXITED = 2
NODE = 2  # namespace mode: the node's namespaces
UNCONFINED = 1

Value = t.Union[str, int, bytes]


def number(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def message(*fields: t.Tuple[int, Value]) -> bytes:
    """Encode a message from the numbers and values of its fields."""
    made = b""
    for place, value in fields:
        if isinstance(value, int):
            made += number(place << 3) + number(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            made += number(place << 3 | 2) + number(len(content)) + content
    return made


def call(method: str, *fields: t.Tuple[int, Value]) -> t.Dict[int, t.Any]:
    return dict(cri.fields(cri.answer(SOCKET, method, message(*fields))))


def run(words: t.Sequence[str]) -> int:
    end = words.index("--")
    handler, parent, image, device, *environment = words[:end]
    profile = message((1, UNCONFINED))
    namespaces = message((1, NODE))
    pod = message(
        (1, message((1, "gpufleet"), (2, "gpufleet"), (3, "default"))),
        (3, LOGS),
        (8, message((1, parent), (2, message((1, namespaces), (9, profile), (10, profile))))),
    )
    sandbox = call("RunPodSandbox", (1, pod), (2, handler))[1]
    try:
        container = message(
            (1, message((1, "only"))),
            (2, message((1, image))),
            *((3, word) for word in words[end + 1 :]),
            *((6, message(*zip((1, 2), each.split("=", 1)))) for each in environment),
            (11, "log"),
            (15, message((2, message((3, namespaces), (15, profile), (16, profile))))),
            *((17, message((1, name))) for name in [device] if name),
        )
        made = call("CreateContainer", (1, sandbox), (2, container), (3, pod))[1]
        call("StartContainer", (1, made))
        status: t.Dict[int, t.Any] = {}
        for _attempt in range(100):
            status = dict(cri.fields(call("ContainerStatus", (1, made))[1]))
            if status.get(3) == EXITED:
                break
            time.sleep(0.1)
        with open(os.path.join(LOGS, "log"), encoding="utf-8") as log:
            for line in log:  # time, stream, tag (full or partial line), output
                print(line.split(" ", 3)[3], end="")
        return status.get(7, 0) if status.get(3) == EXITED else 124
    finally:
        call("StopPodSandbox", (1, sandbox))
        call("RemovePodSandbox", (1, sandbox))
        shutil.rmtree(LOGS)


def main() -> None:
    try:
        if sys.argv[1] == "run":
            sys.exit(run(sys.argv[2:]))
        print(json.dumps(cri.configuration(SOCKET)))
    except cri.NotReady as problem:
        sys.exit("%s; see journalctl -u containerd" % problem)


if __name__ == "__main__":
    main()
