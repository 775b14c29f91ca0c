# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a release and their checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import artifacts as artifacts

GOOD = hashlib.sha256(b"good").hexdigest()


def test_lists_of_checksums() -> None:
    text = "%s  a.tar.gz\n%s *./b.tar.gz\r\n# comment\nabc  c.tar.gz\n" % (GOOD, GOOD.upper())
    assert artifacts.parse(text) == {"a.tar.gz": GOOD, "b.tar.gz": GOOD}


def test_files(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"good")
    (tmp_path / "bad").write_bytes(b"bad")
    expected = {"good": GOOD, "bad": GOOD, "missing": GOOD}
    found = [artifacts._file(str(tmp_path / name), expected) for name in ("good", "bad", "missing", "unlisted")]
    assert [each["current"] for each in found] == [True, False, False, False]
    damaged, missing, unlisted = artifacts.artifact_problems(found, "/sums.txt")
    assert damaged.startswith("%s/bad has the checksum %s, but" % (tmp_path, hashlib.sha256(b"bad").hexdigest()))
    assert missing == "%s/missing is missing" % tmp_path
    assert unlisted.startswith("/sums.txt does not list unlisted, so the file cannot be verified")
