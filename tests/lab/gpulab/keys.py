# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys that sign the lab's repositories, generated once and used only here."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

from .places import LAB, alone, call

KEYS = LAB / "keys"
NAMES = ("main", "rotated", "other")


@contextlib.contextmanager
def keyring(*secrets: Path) -> t.Iterator[t.Dict[str, str]]:
    """A temporary keyring, in a directory with a short name because it holds the agent's socket."""
    home = tempfile.mkdtemp(prefix="gpg-")
    environment = {**os.environ, "GNUPGHOME": home}
    try:
        for secret in secrets:
            call("gpg", "--batch", "--quiet", "--import", secret, env=environment)
        yield environment
    finally:
        call("gpgconf", "--kill", "all", env=environment)
        shutil.rmtree(home, ignore_errors=True)


def prepare() -> None:
    KEYS.mkdir(parents=True, exist_ok=True)
    with alone("keys"):
        for name in NAMES:
            if not secret(name).exists():
                generate(name)


def generate(name: str) -> None:
    with keyring() as environment:
        user = "gpufleet lab, %s key <%s@gpufleet.invalid>" % (name, name)
        call(
            *("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""),
            *("--quick-generate-key", user, "rsa3072", "sign", "never"),
            env=environment,
        )
        public(name).write_text(call("gpg", "--batch", "--armor", "--export", env=environment))
        kept = call("gpg", "--batch", "--armor", "--export-secret-keys", env=environment)
        secret(name).touch(mode=0o600)
        secret(name).write_text(kept)


def secret(name: str) -> Path:
    return KEYS / (name + ".sec")


def public(name: str) -> Path:
    return KEYS / (name + ".asc")


def published(name: str) -> t.Dict[str, str]:
    """The values for a role's key variables."""
    listed = call("gpg", "--batch", "--with-colons", "--show-keys", public(name))
    fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
    return {"fingerprint": fingerprint, "checksum": "sha256:" + hashlib.sha256(public(name).read_bytes()).hexdigest()}
