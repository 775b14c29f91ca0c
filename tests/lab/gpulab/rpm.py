# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signed rpm repositories for the Rocky look-alike, with module streams like the vendor's.

cuda/rhel9/x86_64/              the driver
later/rhel9/x86_64/             a later version of it
toolkit/stable/rpm/x86_64/      the container toolkit
docker/9/x86_64/stable/         containerd.io
unsigned/..., otherkey/...      variants of the driver and the toolkit: unsigned; signed with another key than the
                                published one

They are built in a container that has rpm's tools.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import typing as t
from pathlib import Path

import yaml

from . import containerd, images, keys, packages, repositories, shared, snapshot, toolkit
from .places import BUILDING, HERE, LAB, alone, call, fingerprint, podman, say

ROOT = LAB / "rpm"
TOOLKIT = "toolkit/stable/rpm/x86_64"
DOCKER = "docker/9/x86_64/stable"
CONTAINER = "gpufleet-image-rpms"
# The kernel modules of the module streams.
OPEN_MODULES, PROPRIETARY_MODULES = "kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"
PRECOMPILED_MODULES = r"kmod-nvidia-\d"
LATEST = {"open-dkms": OPEN_MODULES, "latest-dkms": PROPRIETARY_MODULES, "latest": PRECOMPILED_MODULES}

SPEC = """\
%define _build_id_links none
%define _binary_payload w1.gzdio
%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
Name: {name}
Version: {version}
Release: {release}
Summary: {description}
License: MIT
AutoReqProv: no
{fields}%description
{description}
%install
cp -a /work/{folder}/root/. %{{buildroot}}/
%post
{post}%preun
if [ "$1" = 0 ]; then :
{preun}fi
%files
{files}
"""

# In the container: build every .spec below /work into /work/out, and sign copies with each key in /work/keys.
BUILD = r"""
export HOME=/tmp/home GNUPGHOME=/tmp/home/gnupg
install -d -m 700 /tmp/home "$GNUPGHOME"
for spec in /work/*/package.spec; do
    rpmbuild --quiet -bb --target x86_64 --define '_topdir /tmp/build' --define '_rpmdir /work/out' \
        --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' "$spec"
done
for key in /work/keys/*.sec; do
    name=$(basename "$key" .sec)
    gpg --batch --quiet --import "$key"
    mkdir "/work/$name"
    cp /work/out/*.rpm "/work/$name/"
    rpmsign --define '__gpg /usr/bin/gpg' --define "_gpg_name $name@gpufleet.invalid" --addsign "/work/$name"/*.rpm \
        >/tmp/sign.log 2>&1 || { cat /tmp/sign.log >&2; exit 1; }
done
gpgconf --kill all
"""


def prepare() -> None:
    """Build what is missing or out of date."""
    shared.prepare()
    keys.prepare()
    image = images.build("rpm")
    names = ("rpm.py", "packages.py", "toolkit.py", "containerd.py", "programs.py", "keys.py", "snapshot.py")
    sources = [*(HERE / "gpulab" / name for name in names), snapshot.PATH]
    recipes = [path for path in sorted((HERE / "repositories").rglob("*")) if path.is_file()]
    smi = shared.real_nvidia_smi()
    wanted = fingerprint(
        *recipes, *sources, shared.SIMULATOR, *([smi] if smi else []), *(keys.public(name) for name in keys.NAMES)
    )
    stamp = ROOT / ".stamp"
    with alone("rpm"):
        if stamp.exists() and stamp.read_text() == wanted:
            return
        say("building the lab's rpm repositories (about half a minute)")
        new = LAB / "rpm.new"
        shutil.rmtree(new, ignore_errors=True)
        known = packages.definitions()["rpm_repositories"]
        for path, what in known.items():
            alone_here = what.get("alone", False)
            repository(image, path, packages.driver_packages(what), new, modular=True, twins=not alone_here)
            if not alone_here:
                made = packages.driver_packages(what, dkms=True)
                repository(image, "broken/" + path, made, new, modular=True, twins=False)
        repository(image, TOOLKIT, [dependencies_of_rpm(each) for each in toolkit.packages()], new)
        repository(image, DOCKER, [containerd.package()], new, twins=False)
        (new / ".stamp").write_text(wanted)
        shutil.rmtree(ROOT, ignore_errors=True)
        os.rename(new, ROOT)


def dependencies_of_rpm(package: packages.Package) -> packages.Package:
    return package._replace(depends=package.depends.replace("(", "").replace(")", ""))


def repository(
    image: str,
    path: str,
    wanted: t.Sequence[packages.Package],
    root: Path,
    modular: bool = False,
    twins: bool = True,
) -> None:
    """Build a repository, and its unsigned and wrongly signed variants (``twins``).

    ``modular``: with the module streams of the driver.
    """
    BUILDING.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="rpm-", dir=BUILDING))
    try:
        for number, package in enumerate(wanted):
            specify(package, work / ("%03d" % number))
        (work / "out").mkdir()
        (work / "keys").mkdir()
        for name in ("main", "other") if twins else ("main",):
            shutil.copyfile(keys.secret(name), work / "keys" / (name + ".sec"))
        inside(image, work, BUILD)
        for prefix, files, signer in (
            ("", "main", "main"),
            ("otherkey/", "other", "other"),
            ("unsigned/", "out", None),
        )[: None if twins else 1]:
            folder = root / (prefix + path)
            shutil.copytree(work / files, folder)
            if modular:
                (folder / "modules.yaml").write_text(streams(wanted))
            index(image, folder)
            sign(folder, signer)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def inside(image: str, work: Path, script: str) -> None:
    podman("rm", "--force", "--time", "1", "--ignore", CONTAINER)
    podman(
        *("run", "--rm", "--name", CONTAINER, "--privileged", "--network", "none", "--volume", "%s:/work" % work),
        *(image, "bash", "-euo", "pipefail", "-c", script),
    )


def specify(package: packages.Package, folder: Path) -> None:
    """Write a package's files and its specification."""
    root = folder / "root"
    root.mkdir(parents=True)
    scripts = packages.fill(package, root)
    epoch, _colon, full = package.version.rpartition(":")
    version, release = full.rsplit("-", 1)
    fields = {
        "Epoch": epoch,
        "BuildArch": package.arch,
        "Requires": rpm_words(package.depends),
        "Conflicts": rpm_words(package.conflicts),
        "Provides": rpm_words(package.provides),
    }
    found = sorted(
        "/" + str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()
    )
    text = SPEC.format(
        name=package.name,
        version=version,
        release=release,
        description=package.description,
        fields="".join("%s: %s\n" % (key, value) for key, value in fields.items() if value),
        folder=folder.name,
        post=scripts.installed + ("ldconfig\n" if packages.has_libraries(package) else ""),
        preun=scripts.removed,
        files="\n".join("%config(noreplace) " * (name[1:] in package.conffiles) + name for name in found),
    )
    (folder / "package.spec").write_text(text)


def rpm_words(text: str) -> str:
    return " ".join(text.split())


def streams(wanted: t.Sequence[packages.Package]) -> str:
    """The vendor's streams, as its genmodules.py makes them.

    A branch with open or proprietary modules that DKMS builds, or with precompiled ones. The same for the newest branch,
    under names without the branch; one of them is the default. Packages of no stream are visible in any.
    """
    documents: t.List[packages.Data] = []
    modular = [each for each in wanted if each.driver and not re.search("fabricmanager|nscq", each.name)]
    branches = sorted({each.driver.split(".")[0] for each in modular})
    names = {"open": OPEN_MODULES, "dkms": PROPRIETARY_MODULES, "": PRECOMPILED_MODULES}
    rows = [("-".join(filter(None, (branch, kind))), branch, names[kind]) for branch in branches for kind in names]
    rows += [(kind, branches[-1], pattern) for kind, pattern in LATEST.items()]
    for name, branch, pattern in rows:
        mine = [each for each in modular if each.driver.startswith(branch + ".")]
        mine = [each for each in mine if not each.name.startswith("kmod-nvidia-") or re.match(pattern, each.name)]
        documents.append(
            {
                "document": "modulemd",
                "version": 2,
                "data": {
                    "name": "nvidia-driver",
                    "stream": name,
                    "version": 20260000 + max(int(each.driver.split(".")[1]) for each in mine),
                    "context": "0123abcd",
                    "arch": "x86_64",
                    "summary": "NVIDIA driver of branch %s" % branch,
                    "description": "NVIDIA driver of branch %s" % branch,
                    "license": {"module": ["MIT"]},
                    "artifacts": {"rpms": sorted(nevra(each) for each in mine)},
                },
            }
        )
    default = {"module": "nvidia-driver", "stream": "open-dkms"}
    documents.append({"document": "modulemd-defaults", "version": 1, "data": default})
    return yaml.safe_dump_all(documents, explicit_start=True, sort_keys=False)


def nevra(package: packages.Package) -> str:
    version = package.version if ":" in package.version else "0:" + package.version
    return "%s-%s.%s" % (package.name, version, package.arch or "x86_64")


def index(image: str, folder: Path) -> None:
    script = "createrepo_c --quiet --no-database /work\n"
    if (folder / "modules.yaml").exists():
        script += "modifyrepo_c --mdtype=modules /work/modules.yaml /work/repodata >/dev/null\n"
    inside(image, folder, script)
    (folder / "modules.yaml").unlink(missing_ok=True)


def sign(folder: Path, signer: t.Optional[str]) -> None:
    for name in (*repositories.KEY_FILES, "D42D0685.pub"):
        shutil.copyfile(keys.public("main"), folder / name)
    if signer:
        listed = folder / "repodata" / "repomd.xml"
        with keys.keyring(keys.secret(signer)) as environment:
            call(
                *("gpg", "--batch", "--yes", "--quiet", "--armor", "--detach-sign"),
                *("--output", str(listed) + ".asc", listed),
                env=environment,
            )
        shutil.copyfile(keys.public(signer), folder / "repodata" / "repomd.xml.key")
