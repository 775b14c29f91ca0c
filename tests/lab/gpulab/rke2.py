# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases of the stand-in for rke2, laid out as on the vendor's download site.

rke2/releases/download/VERSION/             rke2.linux-amd64.tar.gz, rke2-images.linux-amd64.tar.zst, sha256sum-amd64.txt
rke2/rpm/stable/MINOR/centos/9/x86_64/      rke2-common, rke2-server and rke2-agent of the minor version's releases
rke2/rpm/stable/common/centos/9/noarch/     rke2-selinux, without content
rke2/rpm/public.key                         the key of these packages
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import string
import tarfile
import tempfile
import typing as t
import zipapp
from pathlib import Path

import yaml

from . import charts, images, keys, kubernetes, operands, podimages, programs, repositories, rpm
from .packages import Package
from .places import BUILDING, HERE, LAB, PROGRAMS, alone, call, fingerprint, say
from .podimages import File, busybox_files, busybox_program, debian_files, image, merge, update

ROOT = LAB / "rke2"
DOWNLOADS = ROOT / "releases" / "download"
SOURCES = HERE / "rke2"
FILES = SOURCES / "files"
PACKAGE = "rke2_standin"
ON_NODE = PROGRAMS / "rke2"
IPTABLES = PROGRAMS / "iptables"
IPTABLES_PACKAGES = "iptables libip4tc2 libip6tc2 libxtables12 libmnl0 libnftnl11 libnfnetlink0 libnetfilter-conntrack3"
IPTABLES_WRAPPER = """\
#!/bin/sh
here=/opt/gpufleet-kubernetes/iptables
LD_LIBRARY_PATH=$here/lib XTABLES_LIBDIR=$here/lib/xtables exec $here/lib/xtables-nft-multi "${0##*/}" "$@"
"""
PAUSE = "docker.io/rancher/mirrored-pause:" + kubernetes.PAUSE_VERSION
HELM_JOB = "docker.io/rancher/klipper-helm:v" + programs.SOURCES["helm"].version
TARBALL = "rke2.linux-amd64.tar.gz"
IMAGES = "rke2-images.linux-amd64.tar.zst"
CHECKSUMS = "sha256sum-amd64.txt"
RESTART = "systemctl daemon-reload\n[ $1 = 1 ] || systemctl try-restart rke2-%s || :\n"  # after an upgrade of a package


# All releases run the same programs, and differ only in the version that they and their kubelets report.
RELEASES = ("v1.34.10+rke2r1", "v1.35.7+rke2r1", "v1.36.3+rke2r1")


def prepare(rpms: bool = False) -> None:
    """Build what is missing or out of date."""
    repositories.prepare()
    kubernetes.prepare()
    names = podimages.prepare()
    operands.prepare()  # nodes import it as if it had been pulled, so it belongs to no release
    charts.prepare()
    with alone("rke2"):
        iptables()
        helm_job()
        sources = [path for folder in (FILES, SOURCES / PACKAGE) for path in sorted(folder.iterdir()) if path.is_file()]
        archives = [podimages.IMAGES / name for name in (*names, "klipper-helm.tar")]
        for release in RELEASES:
            wanted = fingerprint(release, yaml.__version__, Path(__file__), *sources, *archives)
            folder = DOWNLOADS / release
            stamp = folder / ".stamp"
            if not stamp.exists() or stamp.read_text() != wanted:
                say("building rke2 %s" % release)
                make(release, folder, archives)
                stamp.write_text(wanted)
        if rpms:
            rpm_repositories(fingerprint(*(DOWNLOADS / each / CHECKSUMS for each in RELEASES), Path(rpm.__file__)))
        link = repositories.ROOT / ROOT.name
        if not link.is_symlink():
            link.symlink_to(Path("..", ROOT.name))


def kubelet(release: str) -> None:
    """The kubelet that reports the release's version: the same program with a version string of equal length."""
    target = ON_NODE / release / "kubelet"
    plain = "v%s+rke2r1"
    like = plain % (programs.KUBERNETES + "0" * (len(release) - len(plain % programs.KUBERNETES)))
    built = programs.kubelet(like)
    if not target.exists() or target.stat().st_mtime < built.stat().st_mtime:
        new = target.with_name(".new-kubelet")
        new.write_bytes(built.read_bytes().replace(like.encode(), release.encode()))
        new.chmod(0o755)
        os.replace(new, target)


def iptables() -> None:
    """The programs that kube-proxy calls, which nodes may lack: rke2 has them in an image."""
    with alone("iptables"):
        if (IPTABLES / "complete").exists():
            return
        shutil.rmtree(IPTABLES, ignore_errors=True)
        library = IPTABLES / "lib"
        with debian_files(*IPTABLES_PACKAGES.split()) as root:
            found = root / "usr" / "lib" / "x86_64-linux-gnu"
            shutil.copytree(found / "xtables", library / "xtables")
            for path in found.glob("*.so.*"):
                shutil.copy(path, library / path.name)
            shutil.copy(root / "usr" / "sbin" / "xtables-nft-multi", library)
        for name in ("iptables", "ip6tables"):
            for ending in ("", "-save", "-restore"):
                program = IPTABLES / (name + ending)
                program.write_text(IPTABLES_WRAPPER)
                program.chmod(0o755)
        (IPTABLES / "complete").touch()


def helm_job() -> None:
    """The image of the jobs in which the helm-controller installs charts."""
    files = [
        *busybox_files(busybox_program()),
        File("home"),
        File("home/klipper-helm"),
        File("bin/helm", (kubernetes.BIN / "helm").read_bytes()),
        File("bin/entry", (FILES / "helm-job").read_bytes()),
    ]
    update(podimages.IMAGES / "klipper-helm.tar", image(HELM_JOB, files, [], {"Entrypoint": ["entry"], "User": "1000"}))


def make(release: str, folder: Path, archives: t.Sequence[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    own = ON_NODE / release
    own.mkdir(parents=True, exist_ok=True)
    kubelet(release)
    BUILDING.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rke2-", dir=BUILDING) as name:
        work = Path(name)
        # The images of this release only: nodes read the others from a shared directory.
        pause = [File("pause", kubernetes.pause().read_bytes())]
        (work / "pause.tar").write_bytes(image(PAUSE, pause, ["/pause"]))
        marker = "docker.io/rancher/rke2-runtime:" + release.replace("+", "-")
        (work / "marker.tar").write_bytes(image(marker, [File("release", release.encode(), mode=0o644)]))
        update(own / "runtime.tar", merge([work / "pause.tar", work / "marker.tar"]))
        (work / "images.tar").write_bytes(merge([own / "runtime.tar", *archives]))
        call("zstd", "--quiet", "--force", "-1", work / "images.tar", "-o", work / IMAGES)
        (work / TARBALL).write_bytes(tarball(release, work))
        sums = "".join(
            "%s  %s\n" % (hashlib.sha256((work / each).read_bytes()).hexdigest(), each) for each in (IMAGES, TARBALL)
        )
        (work / CHECKSUMS).write_text(sums)
        for each in (TARBALL, IMAGES, CHECKSUMS):
            os.replace(work / each, folder / each)


def program(release: str, work: Path) -> bytes:
    """The program: an archive of Python code, with a YAML library."""
    code = work / "code"
    shutil.copytree(SOURCES / PACKAGE, code / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(yaml.__file__).parent, code / "yaml", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (code / PACKAGE / "release.json").write_text(
        json.dumps({"version": release, "pause": kubernetes.PAUSE_VERSION, "helm_job": HELM_JOB})
    )
    target = work / "program"
    zipapp.create_archive(code, target, "/usr/bin/python3", PACKAGE + ".__main__:program", compressed=True)
    return target.read_bytes()


def unit(role: str, prefix: str) -> bytes:
    other = {"server": "agent", "agent": "server"}[role]
    text = (FILES / "rke2.service").read_text()
    header, _separator, rest = text.partition("# Template")
    template = string.Template(header + rest.partition("\n\n")[2])
    return template.safe_substitute(ROLE=role, OTHER=other, PREFIX=prefix).encode()


def contents(release: str, work: Path, prefix: str) -> t.Dict[str, t.Tuple[bytes, int]]:
    """The files of a release below its prefix, with their modes."""
    made = {"bin/rke2": (program(release, work), 0o755)}
    for name in ("rke2-killall.sh", "rke2-uninstall.sh"):
        made["bin/" + name] = ((FILES / name).read_bytes(), 0o755)
    for role in ("server", "agent"):
        made["lib/systemd/system/rke2-%s.service" % role] = (unit(role, prefix), 0o644)
        made["lib/systemd/system/rke2-%s.env" % role] = ((FILES / "rke2.env").read_bytes(), 0o644)
    made["share/rke2/rke2-cis-sysctl.conf"] = ((FILES / "rke2-cis-sysctl.conf").read_bytes(), 0o644)
    return made


def tarball(release: str, work: Path) -> bytes:
    made = contents(release, work, "/usr/local")
    folders = sorted({str(parent) for name in made for parent in Path(name).parents} - {"."})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, (content, mode) in made.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


# --- Packages for dnf -------------------------------------------------------------------------------------------------


def rpm_repositories(wanted: str) -> None:
    root = ROOT / "rpm"
    stamp = root / ".stamp"
    keys.prepare()
    if stamp.exists() and stamp.read_text() == wanted + keys.public("main").read_text():
        return
    say("building rke2's rpm repositories")
    builder = images.build("rpm")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="rke2-", dir=BUILDING) as name:
        for minor in sorted({minor_version(release) for release in RELEASES}):
            found = [release for release in RELEASES if minor_version(release) == minor]
            made = [package for release in found for package in rpm_packages(release, Path(name, release))]
            rpm.repository(builder, "stable/%s/centos/9/x86_64" % minor, made, root, twins=False)
    policy = [Package("rke2-selinux", "0.20-1.el9", "", arch="noarch")]
    rpm.repository(builder, "stable/common/centos/9/noarch", policy, root, twins=False)
    shutil.copyfile(keys.public("main"), root / "public.key")
    stamp.write_text(wanted + keys.public("main").read_text())


def minor_version(release: str) -> str:
    return release[1:].rpartition(".")[0]


def rpm_packages(release: str, work: Path) -> t.Iterator[Package]:
    work.mkdir()
    found: t.Dict[str, Path] = {}
    for name, (content, _mode) in contents(release, work, "/usr").items():
        path = work / name.replace("/", "-")
        path.write_bytes(content)
        found["usr/" + name] = path
    version = release[1:].replace("+", "~") + "-0.el9"
    common = {name: path for name, path in found.items() if not name.startswith("usr/lib/systemd/")}
    yield Package("rke2-common", version, "", depends="rke2-selinux", files=common)
    for role in ("server", "agent"):
        unit_file = "usr/lib/systemd/system/rke2-%s." % role
        environment = "etc/sysconfig/rke2-" + role
        yield Package(
            "rke2-" + role,
            version,
            "",
            depends="rke2-common = " + version,
            files={unit_file + "service": found[unit_file + "service"], environment: found[unit_file + "env"]},
            conffiles=[environment],
            postinst=RESTART % role,
        )
