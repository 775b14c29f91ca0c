# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/fetch-nvidia-smi: errors, and no repeated downloads. The tests use no network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .support import REPOSITORY, Result


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script in a separate checkout with an empty cache."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "private-apt.sh", tmp_path / "scripts")
    return Path(shutil.copy(REPOSITORY / "scripts" / "fetch-nvidia-smi", tmp_path / "scripts"))


def fetch(script: Path, *arguments: str, **variables: str) -> Result[str]:
    environment = dict(os.environ, **variables)
    return subprocess.run([str(script), *arguments], env=environment, capture_output=True, text=True, check=False)


def fetched(script: Path) -> list[Path]:
    return list((script.parent.parent / ".cache" / "nvidia-smi").glob("*/nvidia-smi"))


needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is missing: not Debian or Ubuntu")


def test_requires_arguments(script: Path) -> None:
    result = fetch(script)
    assert result.returncode == 1
    assert "usage: scripts/fetch-nvidia-smi SUITE|VERSION..." in result.stderr


@needs_apt
def test_missing_keys_name_the_package(script: Path) -> None:
    result = fetch(script, "bookworm", GPUFLEET_DEBIAN_KEYRING=str(script.parent / "none.gpg"))
    assert result.returncode == 1
    assert "install the package debian-archive-keyring" in result.stderr


@needs_apt
def test_rejects_an_unsigned_archive(script: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    packages = archive / "dists" / "bookworm" / "non-free"
    packages.mkdir(parents=True)
    (archive / "dists" / "bookworm" / "Release").write_text("Suite: bookworm\nComponents: non-free\n")
    keyring = tmp_path / "keys.gpg"
    keyring.write_bytes(b"")
    mirror = archive.as_uri()
    result = fetch(script, "bookworm", GPUFLEET_DEBIAN_KEYRING=str(keyring), GPUFLEET_DEBIAN_MIRROR=mirror)
    assert result.returncode == 1
    assert "is not signed" in result.stderr
    assert "cannot read Debian bookworm from %s" % mirror in result.stderr
    assert fetched(script) == []


@needs_apt
def test_names_an_unreachable_mirror(script: Path, tmp_path: Path) -> None:
    keyring = tmp_path / "keys.gpg"
    keyring.write_bytes(b"")
    mirror = (tmp_path / "nowhere").as_uri()
    result = fetch(script, "trixie", GPUFLEET_DEBIAN_KEYRING=str(keyring), GPUFLEET_DEBIAN_MIRROR=mirror)
    assert result.returncode == 1
    assert "cannot read Debian trixie from %s" % mirror in result.stderr
    assert "GPUFLEET_DEBIAN_MIRROR" in result.stderr


def test_does_not_download_existing_files_again(script: Path) -> None:
    present = script.parent.parent / ".cache" / "nvidia-smi" / "1.2.3" / "nvidia-smi"
    present.parent.mkdir(parents=True)
    present.write_text("#!/bin/sh\n")
    present.chmod(0o755)
    result = fetch(script, "1.2.3", GPUFLEET_DEBIAN_KEYRING="/nonexistent")
    assert (result.returncode, result.stdout, result.stderr) == (0, "%s\n" % present, "")
