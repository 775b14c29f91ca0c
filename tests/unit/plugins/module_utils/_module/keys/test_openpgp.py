# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fingerprints of a key that was generated with gpg only for this test."""

from __future__ import annotations

import base64

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.keys.openpgp import KeyFileError, fingerprints

FINGERPRINT = "766CAF676207FF8C79C95FB8EC4E8FA8E89A610D"  # as gpg --fingerprint prints it
ARMOURED = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawDtFBYJKwYBBAHaRw8BAQdA4K8wqPSVAovVqNaAojK9kx+Vrr2nfe2xUPpZ
fgS9o7O0KWdwdWZsZWV0Lm5vZGUgdGVzdCA8dGVzdEBleGFtcGxlLmludmFsaWQ+
iJAEExYIADgWIQR2bK9nYgf/jHnJX7jsTo+o6JphDQUCawDtFAIbAwULCQgHAgYV
CgkICwIEFgIDAQIeAQIXgAAKCRDsTo+o6JphDVXuAP928jQxkPXcPPuUZULy0Hfj
43qooOCaQs4fc0qd88w/PgD9FdV2FDnrx3R4/wmGqZ0kgM2G0XfRnJgQmo6K4fl3
nwk=
=Rc6c
-----END PGP PUBLIC KEY BLOCK-----
"""
BINARY = base64.b64decode("".join(ARMOURED.splitlines()[2:-2]))


@pytest.mark.parametrize(
    "content",
    [
        BINARY,
        ARMOURED.encode(),
        ARMOURED.replace("\n", "\r\n").encode(),
        ("Key of the repository\n\n" + ARMOURED).encode(),
        ARMOURED.replace("BLOCK-----\n\n", "BLOCK-----\nComment: a header\n\n").encode(),
    ],
    ids=["binary", "armoured", "from Windows", "text before", "headers"],
)
def test_fingerprint(content: bytes) -> None:
    assert fingerprints(content) == [FINGERPRINT]


@pytest.mark.parametrize("content", [BINARY * 2, ARMOURED.encode() * 2], ids=["binary", "armoured"])
def test_every_key_of_a_file_counts(content: bytes) -> None:
    """A file with an additional key must not match the expected key."""
    assert fingerprints(content) == [FINGERPRINT] * 2


def test_armour_inside_a_binary_file_is_not_read() -> None:
    """apt and rpm would trust the key around it."""
    user_id = b"\n" + ARMOURED.encode()
    around = bytes([BINARY[0], BINARY[1]]) + bytes([4]) + bytes(BINARY[1] - 1)
    found = fingerprints(around + b"\xb5" + len(user_id).to_bytes(2, "big") + user_id)
    assert len(found) == 1 and found != [FINGERPRINT]


def test_a_changed_key_has_another_fingerprint() -> None:
    changed = BINARY[:12] + bytes([BINARY[12] ^ 1]) + BINARY[13:]
    assert fingerprints(changed) != [FINGERPRINT]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"<html>404</html>", "neither an armoured nor a binary"),
        (b"", "no OpenPGP public key"),
        (ARMOURED.replace("mDM", "m#M").encode(), "armour is damaged"),
        (b"\xc6\xc1", "cut off"),
        (b"\x9b\x01", "unknown length"),
        (BINARY[:-1], "cut off"),
        (ARMOURED[:200].encode(), "cut off"),
        (BINARY + b"\n", "neither an armoured nor a binary"),
        (
            BINARY[:2] + b"\x06" + BINARY[3:],
            "version 6; only version 4 can be verified by fingerprint, others by checksum",
        ),
        (b"\xc6\xff\x00\x01\x00\x00" + b"\x04" * 0x10000, "impossible size"),
        (
            b"-----BEGIN PGP MESSAGE-----\n\nAAAA\n-----END PGP MESSAGE-----\n" + ARMOURED.encode(),
            "other than public keys",
        ),
    ],
)
def test_invalid_keys_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(KeyFileError, match=words):
        fingerprints(content)
