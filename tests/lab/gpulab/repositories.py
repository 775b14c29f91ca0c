# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signed package repositories in the vendor's layout, served to the nodes over HTTP.

cuda/DISTRIBUTION/x86_64/       the driver, like the vendor's CUDA repositories
toolkit/stable/deb/amd64/       the container toolkit
ubuntu/jammy/, ubuntu/noble/    the driver as in Ubuntu's archive, for the look-alikes
unsigned/..., otherkey/..., rotated/..., broken/..., dkms/...
                                variants of these: unsigned; signed with a key other than the published one; after a
                                change of keys; with kernel modules that do not build; with real kernel modules, which
                                DKMS builds on virtual machines
rpm/...                         the repositories of rpm.py, on request
keys/, keys.json                public keys by name, with fingerprints and checksums
"""

from __future__ import annotations

import json
import os
import shutil
import typing as t
from pathlib import Path

from . import keys, packages, shared, snapshot, toolkit
from .places import BUILDING, HERE, LAB, alone, call, fingerprint, say

ROOT = LAB / "www"
TOOLKIT = "toolkit/stable/deb/amd64"
# File names of the vendor's keys.
KEY_FILES = ("3bf863cc.pub", "8793F200.pub", "gpgkey")
VARIANTS = ("broken", "dkms")  # of the kernel modules


class Repository(t.NamedTuple):
    path: str
    like: t.Optional[str] = None  # path of the repository with the same packages
    key: t.Optional[str] = "main"  # name of the key that signs it
    beside: str = "main"  # name of the key that it publishes


def apt_repositories() -> t.List[Repository]:
    plain = [Repository(path) for path in (*packages.definitions()["repositories"], TOOLKIT)]
    made = list(plain)
    for each in plain:
        made.append(Repository("unsigned/" + each.path, each.path, key=None))
        made.append(Repository("otherkey/" + each.path, each.path, key="other"))
        made.append(Repository("rotated/" + each.path, each.path, key="rotated", beside="rotated"))
        if each.path.startswith("cuda/"):
            made += [Repository(variant + "/" + each.path) for variant in VARIANTS]
    return made


def prepare() -> None:
    """Build what is missing or out of date."""
    shared.prepare()
    keys.prepare()
    BUILDING.mkdir(parents=True, exist_ok=True)
    recipes = [path for path in sorted((HERE / "repositories").rglob("*")) if path.is_file()]
    sources = [HERE / "gpulab" / name for name in ("repositories.py", "packages.py", "toolkit.py", "keys.py")]
    sources += [HERE / "gpulab" / "snapshot.py", snapshot.PATH]
    smi = shared.real_nvidia_smi()
    wanted = fingerprint(
        *recipes, *sources, shared.SIMULATOR, *([smi] if smi else []), *(keys.public(name) for name in keys.NAMES)
    )
    stamp = ROOT / ".stamp"
    with alone("repositories"):
        if stamp.exists() and stamp.read_text() == wanted:
            return
        say("building the lab's package repositories (about a minute, the first time)")
        new = LAB / "www.new"
        shutil.rmtree(new, ignore_errors=True)
        for repository in apt_repositories():
            folder = new / repository.path
            folder.mkdir(parents=True)
            fill(repository, folder, new)
            index(folder)
            sign(repository, folder)
        publish_keys(new)
        (new / "rpm").symlink_to("../rpm")
        (new / ".stamp").write_text(wanted)
        # The server opens files by name, so a renamed directory is served immediately.
        old = LAB / "www.old"
        shutil.rmtree(old, ignore_errors=True)
        if ROOT.exists():
            os.rename(ROOT, old)
        os.rename(new, ROOT)
        shutil.rmtree(old, ignore_errors=True)


def fill(repository: Repository, folder: Path, root: Path) -> None:
    if repository.like:
        for path in (root / repository.like).glob("*.deb"):
            os.link(path, folder / path.name)
        return
    if repository.path == TOOLKIT:
        for package in toolkit.packages():
            packages.build(package, folder)
        return
    first, _slash, rest = repository.path.partition("/")
    variant, original = (first, rest) if first in VARIANTS else ("", repository.path)
    what = packages.definitions()["repositories"][original]
    # Packages of one family and release are the same for all its distributions: built once, and linked.
    same = [original] if variant else relatives(original)
    for package in packages.driver_packages(what, broken=variant == "broken", kbuild=variant == "dkms"):
        made = "%s_%s_amd64.deb" % (package.name, package.version.replace(":", "%3a"))
        sources = [root / path / made for path in same if not (variant and packages.has_module(package))]
        source = next((path for path in sources if path.exists()), None)
        if source:
            os.link(source, folder / made)
        else:
            packages.build(package, folder)


def relatives(path: str) -> t.List[str]:
    """Repositories with packages of the same family and release."""
    known = packages.definitions()["repositories"]

    def kind(name: str) -> t.Tuple[str, str]:
        return known[name]["family"], known[name]["release"]

    return [other for other in known if other != path and kind(other) == kind(path)]


def index(folder: Path) -> None:
    """Index a flat repository: packages and index in one directory."""
    listed = call("apt-ftparchive", "packages", ".", cwd=folder)
    (folder / "Packages").write_text(listed)
    call("gzip", "-9kf", "Packages", cwd=folder)
    fields = {"Origin": "gpufleet lab", "Label": "gpufleet lab", "Architectures": "amd64", "Suite": "stable"}
    options = [
        part for key, value in fields.items() for part in ("-o", "APT::FTPArchive::Release::%s=%s" % (key, value))
    ]
    (folder / "Release").write_text(call("apt-ftparchive", *options, "release", ".", cwd=folder))


def sign(repository: Repository, folder: Path) -> None:
    for name in KEY_FILES:
        shutil.copyfile(keys.public(repository.beside), folder / name)
    if not repository.key:
        return
    with keys.keyring(keys.secret(repository.key)) as environment:
        for name, how in (("InRelease", "--clearsign"), ("Release.gpg", "--detach-sign")):
            call(
                *("gpg", "--batch", "--yes", "--quiet", "--armor", how, "--output", folder / name, folder / "Release"),
                env=environment,
            )


def publish_keys(root: Path) -> None:
    folder = root / "keys"
    folder.mkdir()
    for name in keys.NAMES:
        shutil.copyfile(keys.public(name), folder / (name + ".asc"))
    (root / "keys.json").write_text(json.dumps({name: keys.published(name) for name in keys.NAMES}, indent=2) + "\n")
    shutil.copyfile(keys.public("main"), root / "toolkit" / "gpgkey")
