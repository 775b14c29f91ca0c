# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter openpgp_fingerprints, on a key made with gpg for this test alone."""

from __future__ import annotations

import base64

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.node.plugins.filter.openpgp_fingerprints import FilterModule

openpgp_fingerprints = FilterModule().filters()["openpgp_fingerprints"]

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


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


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
    assert openpgp_fingerprints(encoded(content)) == [FINGERPRINT]


def test_every_key_of_a_file_counts() -> None:
    """A file with one key too many must not pass for the one expected."""
    assert openpgp_fingerprints(encoded(BINARY * 2)) == [FINGERPRINT] * 2


def test_a_changed_key_has_another_fingerprint() -> None:
    changed = BINARY[:12] + bytes([BINARY[12] ^ 1]) + BINARY[13:]
    assert openpgp_fingerprints(encoded(changed)) != [FINGERPRINT]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"<html>404</html>", "neither an armoured nor a binary"),
        (b"", "no OpenPGP public key"),
        (ARMOURED.replace("mDM", "m#M").encode(), "armour is damaged"),
        (b"\xc6\xc1", "cut off"),
        (b"\x9b\x01", "unknown length"),
    ],
)
def test_what_is_no_key_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        openpgp_fingerprints(encoded(content))
    assert openpgp_fingerprints(encoded(content), damaged="none") == []
