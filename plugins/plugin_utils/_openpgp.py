# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The fingerprint of an OpenPGP public key, so that a node needs no gpg for its key to be checked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import typing as t

from ._refusal import Refusal

_PUBLIC_KEY = 6
_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def fingerprints(content: bytes) -> t.List[str]:
    """Of every primary key in a file, armoured or not: 40 hexadecimal digits (version 4 keys)."""
    found = []
    try:
        for tag, body in _packets(_binary(content)):
            if tag == _PUBLIC_KEY and body[:1] == b"\x04":
                digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
                found.append(digest.hexdigest().upper())
    except IndexError as error:
        raise Refusal("it is cut off") from error
    if not found:
        raise Refusal("there is no OpenPGP public key in it")
    return found


def _binary(content: bytes) -> bytes:
    text = content.decode("latin-1")
    if _BEGIN not in text:
        return content
    lines = text[text.index(_BEGIN) :].splitlines()[1:]
    body = []
    for line in lines[lines.index("") + 1 if "" in lines else 0 :]:
        if line.startswith(("=", "-----END")):  # the checksum, or the end
            break
        body.append(line.strip())
    try:
        return base64.b64decode("".join(body), validate=True)
    except binascii.Error as error:
        raise Refusal("its armour is damaged: %s" % error) from error


def _packets(content: bytes) -> t.Iterator[t.Tuple[int, bytes]]:
    """Tag and body of each packet (RFC 9580, section 4.2)."""
    position = 0
    while position < len(content):
        header = content[position]
        if not header & 0x80:
            raise Refusal("it is neither an armoured nor a binary OpenPGP file")
        position += 1
        if header & 0x40:
            tag = header & 0x3F
            first = content[position] if position < len(content) else 0
            if first < 192:
                length, position = first, position + 1
            elif first < 224:
                length, position = ((first - 192) << 8) + content[position + 1] + 192, position + 2
            elif first == 255:
                length, position = int.from_bytes(content[position + 1 : position + 5], "big"), position + 5
            else:
                raise Refusal("it holds a packet of unknown length, which no public key has")
        else:
            tag, size = (header & 0x3C) >> 2, 1 << (header & 0x03)
            if size == 8:
                raise Refusal("it holds a packet of unknown length, which no public key has")
            length, position = int.from_bytes(content[position : position + size], "big"), position + size
        yield tag, content[position : position + length]
        position += length
