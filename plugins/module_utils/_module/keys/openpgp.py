# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Fingerprints of OpenPGP public keys, without gpg.

Minimal Debian and Ubuntu nodes have only gpgv or sqv, which list no keys, and a checksum changes when a key is renewed.
A file that apt or rpm could parse differently is rejected.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import typing as t

_PUBLIC_KEY = 6
_BEGIN = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_END = b"-----END PGP PUBLIC KEY BLOCK-----"


class KeyFileError(Exception):
    """The file does not consist of OpenPGP public keys. The message completes a sentence about the file."""


def fingerprints(content: bytes) -> t.List[str]:
    """The fingerprint of every primary key in a file, armoured or binary: 40 hexadecimal digits each."""
    try:
        found = [_fingerprint(body) for tag, body in _packets(_binary(content)) if tag == _PUBLIC_KEY]
    except IndexError as error:
        raise KeyFileError("it is cut off") from error
    if not found:
        raise KeyFileError("it contains no OpenPGP public key")
    return found


def _fingerprint(body: bytes) -> str:
    if body[0] != 4:
        raise KeyFileError(
            "it contains a key of version %d; only version 4 can be verified by fingerprint, others by checksum"
            % body[0]
        )
    if len(body) > 0xFFFF:
        raise KeyFileError("it contains a key of impossible size")
    return _sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hex().upper()


def _sha1(content: bytes) -> bytes:
    try:
        return hashlib.sha1(content, usedforsecurity=False).digest()  # available in FIPS mode too
    except TypeError:  # Python 3.8
        return hashlib.sha1(content).digest()


def _binary(content: bytes) -> bytes:
    if content[:1] >= b"\x80":  # the first byte of a packet; armour is ASCII
        return content
    blocks = list(_blocks(iter(content.split(b"\n"))))
    if content and not blocks:
        raise KeyFileError("it is neither an armoured nor a binary OpenPGP file")
    return b"".join(blocks)


def _blocks(lines: t.Iterator[bytes]) -> t.Iterator[bytes]:
    """The content of all armoured blocks. apt reads only the first, rpm imports every one."""
    for line in lines:
        if line.rstrip() == _BEGIN:
            yield _block(lines)
        elif line.startswith(b"-----"):
            raise KeyFileError(
                "it contains something other than public keys: %s" % line.decode("ascii", "replace").rstrip()
            )


def _block(lines: t.Iterator[bytes]) -> bytes:
    while next(lines, b"").strip():
        pass  # the headers, up to an empty line
    body = []
    for line in lines:
        if line.rstrip() == _END:
            break
        if not line.startswith(b"="):  # the block's checksum
            body.append(line.strip())
    else:
        raise KeyFileError("it is cut off")
    try:
        return base64.b64decode(b"".join(body), validate=True)
    except binascii.Error as error:
        raise KeyFileError("its armour is damaged: %s" % error) from error


def _packets(content: bytes) -> t.Iterator[t.Tuple[int, bytes]]:
    """Tag and body of each packet (RFC 9580, section 4.2)."""
    position = 0
    while position < len(content):
        header = content[position]
        if not header & 0x80:
            raise KeyFileError("it is neither an armoured nor a binary OpenPGP file")
        tag, start, length = _new_header(content, position) if header & 0x40 else _old_header(content, position)
        position = start + length
        if position > len(content):
            raise KeyFileError("it is cut off")
        yield tag, content[start:position]


def _new_header(content: bytes, position: int) -> t.Tuple[int, int, int]:
    """Tag, start and length of a packet's body."""
    tag, first, start = content[position] & 0x3F, content[position + 1], position + 2
    if first < 192:
        return tag, start, first
    if first < 224:
        return tag, start + 1, ((first - 192) << 8) + content[start] + 192
    if first == 255:
        return tag, start + 4, int.from_bytes(content[start : start + 4], "big")
    raise KeyFileError("it contains a packet of unknown length, which no public key has")


def _old_header(content: bytes, position: int) -> t.Tuple[int, int, int]:
    tag, size, start = (content[position] & 0x3C) >> 2, 1 << (content[position] & 0x03), position + 1
    if size == 8:
        raise KeyFileError("it contains a packet of unknown length, which no public key has")
    return tag, start + size, int.from_bytes(content[start : start + size], "big")
