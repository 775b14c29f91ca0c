# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths and addresses of the lab, and functions that run programs."""

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
PODMAN = LAB / "podman"  # its images, containers and networks; labns configures it
SHARED = LAB / "opt"  # every node's /opt/gpufleet-lab
PROGRAMS = LAB / "kubernetes" / "node"  # every node's /opt/gpufleet-kubernetes
BUILDING = LAB / "building"
LABNS = HERE / "labns"
SSH_KEY = LAB / "keys" / "ssh"
PREFIX = "gpufleet-"
NETWORK = "gpufleet-lab"

# Each checkout has its own network, so that several can be used on one machine.
_OCTET = 16 + zlib.crc32(str(TOP).encode()) % 224
SUBNET = "10.89.%d" % _OCTET
GATEWAY = SUBNET + ".1"
LOOPBACK = "127.0.0.1"
PORT = 18000 + _OCTET  # each checkout needs its own, because virtual machines reach it on loopback
SOCKETS = Path("/run/gpufleet-lab-ssh-%d" % _OCTET)  # ssh's shared connections; the path must be short
URL = "http://%s:%d" % (GATEWAY, PORT)


class LabError(Exception):
    """An error with a message for the user."""


def say(text: str) -> None:
    print("==> " + text, file=sys.stderr, flush=True)


def call(*command: t.Union[str, Path], **options: t.Any) -> str:
    """Run a program and return its output; raise an error with its error output if it fails."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)
    if done.returncode:
        output = (done.stderr + done.stdout).strip()
        raise LabError("%s ended with status %d\n%s" % (" ".join(map(str, command)), done.returncode, output[-4000:]))
    return t.cast(str, done.stdout)


def podman(*arguments: t.Union[str, Path], **options: t.Any) -> str:
    return call(LABNS, "podman", *arguments, **options)


def succeeds(*command: t.Union[str, Path]) -> bool:
    done = subprocess.run([str(part) for part in command], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def fingerprint(*parts: t.Union[str, Path]) -> str:
    """A hash of texts and of the contents of files, to detect outdated results."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()[:16]


def processes(program: str, place: Path = Path("/")) -> t.Dict[int, t.List[str]]:
    """Command lines, by process id, of processes of a program, or a module of the lab, for a path, if one is given.

    Unlike a pid file, this also works after the checkout was deleted and cloned again.
    """
    found = {}
    # A glob over their directories fails if a process ends meanwhile.
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            words = Path("/proc", number, "cmdline").read_bytes().decode().split("\0")[:-1]
            named = program in words or words[:1] and Path(words[0]).name == program
            if named and any(Path(word) == place or place in Path(word).parents for word in words):
                found[int(number)] = words
    return found


@contextlib.contextmanager
def alone(name: str) -> t.Iterator[None]:
    """Hold a lock that all processes of this checkout share."""
    LAB.mkdir(parents=True, exist_ok=True)
    with open(LAB / (name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
