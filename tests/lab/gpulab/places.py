# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the lab keeps things, and how it runs programs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import typing as t
import zlib
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
HERE = TOP / "tests" / "lab"
CACHE = TOP / ".cache"
LAB = CACHE / "lab"
NODES = LAB / "nodes"
SHARED = LAB / "opt"  # every node's /opt/gpufleet-lab
BUILDING = LAB / "building"
LABNS = HERE / "labns"
SSH_KEY = LAB / "keys" / "ssh"
PREFIX = "gpufleet-"
NETWORK = "gpufleet-lab"

# Each checkout has a network of its own, so that two on one machine do not meet.
_OCTET = 16 + zlib.crc32(str(TOP).encode()) % 224
SUBNET = os.environ.get("GPUFLEET_LAB_SUBNET", "10.89.%d" % _OCTET)
GATEWAY = SUBNET + ".1"
LOOPBACK = "127.0.0.1"
PORT = 18000 + _OCTET  # machines reach it on this machine's loopback, where each checkout needs one of its own
SOCKETS = Path("/run/gpufleet-lab-ssh-%d" % _OCTET)  # of ssh's shared connections; such a path must be short
URL = "http://%s:%d" % (GATEWAY, PORT)


class LabError(Exception):
    """What the lab says before it ends."""


def say(text: str) -> None:
    print("==> " + text, file=sys.stderr, flush=True)


def call(*command: t.Union[str, Path], **options: t.Any) -> str:
    """Run a program and return what it prints; what it says on failure becomes the error."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)
    if done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise LabError("%s ended with status %d\n%s" % (" ".join(map(str, command)), done.returncode, said[-4000:]))
    return t.cast(str, done.stdout)


def podman(*arguments: t.Union[str, Path], **options: t.Any) -> str:
    return call(LABNS, "podman", *arguments, **options)


def succeeds(*command: t.Union[str, Path]) -> bool:
    done = subprocess.run([str(part) for part in command], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def fingerprint(*parts: t.Union[str, Path]) -> str:
    """Of texts and of files' content, to know whether what was made of them is still right."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()[:16]


def processes(module: str, place: Path) -> t.Dict[int, t.List[str]]:
    """Command lines, by process id, of what runs a module of the lab for a place of this checkout.

    By these they are known also after the checkout was deleted and cloned again, which no note in it would survive.
    """
    found = {}
    # A glob of what is in their folders would itself fail where a process ends just then.
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            words = Path("/proc", number, "cmdline").read_bytes().decode().split("\0")[:-1]
            if module in words and any(Path(word) == place or place in Path(word).parents for word in words):
                found[int(number)] = words
    return found


@contextlib.contextmanager
def alone(name: str) -> t.Iterator[None]:
    """One at a time among all that run on this checkout."""
    LAB.mkdir(parents=True, exist_ok=True)
    with open(LAB / (name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
