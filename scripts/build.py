# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the artifact that Galaxy imports and ansible-galaxy installs, and print its path.

Usage: scripts/build.py [DIRECTORY]    without a directory: .cache/artifact

The same files give the same bytes, with one version of zlib: files are sorted by name, and have the time of the last
commit, or of SOURCE_DATE_EPOCH. In documents, links to other files become links to the repository, because Galaxy shows
each document at an address of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import typing as t
from pathlib import Path, PurePosixPath

import yaml

TOP = Path(__file__).resolve().parent.parent
# A link to a file: its path, and the heading in it.
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def absolute_links(text: str, document: PurePosixPath, base: str) -> str:
    """The text of a document with absolute links. ``document`` is its path below ``base``."""

    def absolute(link: re.Match[str]) -> str:
        target = posixpath.normpath(document.parent / link[1])
        # An address with blob shows a page, not the picture.
        place = base.replace("/blob/", "/raw/") if target.endswith((".svg", ".png")) else base
        return "](%s/%s%s)" % (place, target, link[2] or "")

    return LINK.sub(absolute, text)


def copy(target: Path, galaxy: t.Mapping[str, t.Any]) -> int:
    """Copy the project's files, and return the time of the newest."""
    listed = subprocess.run([TOP / "scripts" / "files"], stdout=subprocess.PIPE, check=True).stdout.decode()
    base = "%s/blob/%s" % (galaxy["repository"], galaxy["version"])
    newest = 0.0
    for name in filter(None, listed.split("\0")):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, path, follow_symlinks=False)
        newest = max(newest, path.lstat().st_mtime)
        if path.suffix == ".md":
            path.write_text(absolute_links(path.read_text(), PurePosixPath(name), base))
    return int(newest)


def commit_time() -> int | None:
    """The time of the last commit. None outside a git checkout."""
    if not (TOP / ".git").exists():
        return None
    command = ["git", "-c", "safe.directory=*", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, check=True).stdout)


def normalize(artifact: Path, seconds: int) -> bytes:
    """The artifact with its files in the order of their names and with one time."""
    with tarfile.open(artifact) as archive:
        contents = {
            member.name: (member, archive.extractfile(member).read() if member.isfile() else b"") for member in archive
        }
    listed = json.loads(contents["FILES.json"][1])
    listed["files"].sort(key=lambda file: file["name"])
    files = json.dumps(listed, indent=1).encode()
    manifest = json.loads(contents["MANIFEST.json"][1])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(files).hexdigest()
    contents["FILES.json"] = (contents["FILES.json"][0], files)
    contents["MANIFEST.json"] = (contents["MANIFEST.json"][0], json.dumps(manifest, indent=1).encode())

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for _name, (member, content) in sorted(contents.items()):
            member.mtime, member.size = seconds, len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=seconds)


def main(directory: Path) -> None:
    galaxy = yaml.safe_load((TOP / "galaxy.yml").read_text())
    name = "%s-%s-%s.tar.gz" % (galaxy["namespace"], galaxy["name"], galaxy["version"])
    with tempfile.TemporaryDirectory() as work:
        newest = copy(Path(work) / "files", galaxy)
        command = [Path(sys.executable).parent / "ansible-galaxy", "collection", "build", "--output-path", work]
        subprocess.run([*command, Path(work) / "files"], stdout=subprocess.DEVNULL, check=True)
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time() or newest)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(normalize(Path(work) / name, seconds))
    print(directory / name)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]) if sys.argv[1:] else TOP / ".cache" / "artifact")
