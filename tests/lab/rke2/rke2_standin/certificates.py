# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Authorities and certificates, created with openssl."""

from __future__ import annotations

import ipaddress
import subprocess
import time
import typing as t
from pathlib import Path

DAYS = 365
USAGES = {"client": "clientAuth", "server": "serverAuth", "both": "serverAuth,clientAuth"}


def openssl(*words: t.Union[str, Path], config: str = "") -> None:
    done = subprocess.run(
        ["openssl", *map(str, words)],
        input=config,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        raise OSError("openssl failed: %s" % done.stdout)


def make(
    path: Path, subject: str, extensions: t.Sequence[str], days: int, signer: t.Sequence[t.Union[str, Path]]
) -> None:
    """Write path.crt and path.key."""
    lines = ["[req]", "distinguished_name = dn", "x509_extensions = ext", "[dn]", "[ext]", *extensions]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    openssl(
        *(
            "req",
            "-x509",
            "-config",
            "/dev/stdin",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ),
        *("-subj", subject, "-days", str(days), "-keyout", "%s.key" % path, "-out", "%s.crt" % path, *signer),
        config="\n".join(lines) + "\n",
    )


def authority(path: Path, name: str) -> None:
    """Create a certificate authority, unless it exists."""
    if not Path("%s.key" % path).exists():
        usage = "keyUsage = critical,digitalSignature,keyCertSign,cRLSign"
        extensions = ["basicConstraints = critical,CA:true", usage, "subjectKeyIdentifier = hash"]
        make(path, "/CN=%s@%d" % (name, time.time()), extensions, 10 * DAYS, [])


def issue(
    signer: Path, path: Path, user: str, group: str = "", usage: str = "client", names: t.Sequence[str] = ()
) -> Path:
    """Create a certificate, unless an equal one exists."""
    made_for = repr((user, group, usage, list(names)))
    record = Path("%s.for" % path)
    if record.exists() and record.read_text() == made_for and Path("%s.key" % path).exists():
        return path
    extensions = [
        "basicConstraints = critical,CA:false",
        "keyUsage = critical,digitalSignature,keyEncipherment",
        "extendedKeyUsage = " + USAGES[usage],
        "authorityKeyIdentifier = keyid",
    ]
    if names:
        extensions.append("subjectAltName = " + ",".join(alternative(name) for name in dict.fromkeys(names)))
    subject = ("/O=" + group if group else "") + "/CN=" + user
    make(path, subject, extensions, DAYS, ["-CA", "%s.crt" % signer, "-CAkey", "%s.key" % signer])
    record.write_text(made_for)
    return path


def alternative(name: str) -> str:
    try:
        return "IP:%s" % ipaddress.ip_address(name)
    except ValueError:
        return "DNS:%s" % name


def signing_key(path: Path) -> None:
    """Create the key of service account tokens, unless it exists."""
    if not path.exists():
        openssl("genrsa", "-traditional", "-out", path, "2048")
