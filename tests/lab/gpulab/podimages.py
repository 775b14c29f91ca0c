# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container images for pods, as archives in OCI's image layout. Nodes import them, because there is no registry."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import typing as t
from pathlib import Path

from . import kubernetes
from .places import BUILDING, LAB, PROGRAMS, alone, call, say

IMAGES = PROGRAMS / "images"
PAUSE = "localhost/pause:" + kubernetes.PAUSE_VERSION
BUSYBOX = "localhost/busybox:1"
BUSYBOX_PROGRAM = LAB / "kubernetes" / "busybox"  # static, from Debian
SUITE = "bookworm"
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class File(t.NamedTuple):
    """A file in an image: a program or text, or a link to ``link``; a directory if it is neither."""

    name: str
    content: t.Optional[bytes] = None
    link: t.Optional[str] = None
    mode: int = 0o755


def tar(files: t.Iterable[File]) -> bytes:
    """An archive of the files below root, without timestamps: equal contents produce equal archives."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(file.name)
            entry.mode = file.mode
            entry.type = tarfile.DIRTYPE
            if file.link is not None:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            elif file.content is not None:
                entry.type, entry.size = tarfile.REGTYPE, len(file.content)
            archive.addfile(entry, io.BytesIO(file.content or b""))
    return buffer.getvalue()


def image(
    reference: str,
    files: t.Iterable[File],
    command: t.Sequence[str] = (),
    settings: t.Optional[t.Mapping[str, t.Any]] = None,
    base: t.Optional[bytes] = None,
    names: t.Sequence[str] = (),
) -> bytes:
    """An image, which containerd imports under this reference and the other names.

    It has one layer, on top of ``base`` if given. ``settings``: additional configuration.
    """
    blobs: t.Dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> t.Dict[str, t.Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs["blobs/sha256/" + digest] = content
        media_type = "application/vnd.oci.image.%s" % media_type
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(content)}

    def text(what: t.Mapping[str, t.Any]) -> bytes:
        return json.dumps(what, sort_keys=True).encode()

    layers = [blob("layer.v1.tar", layer) for layer in ([base] if base else []) + [tar(files)]]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Cmd": list(command),
            "Env": ["PATH=" + SEARCHED],
            "WorkingDir": "/",
            **(settings or {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", text(config)),
        "layers": layers,
    }
    described = blob("manifest.v1+json", text(manifest))
    named = [{**described, "annotations": {"io.containerd.image.name": name}} for name in (reference, *names)]
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": named}
    blobs["index.json"] = text(index)
    blobs["oci-layout"] = text({"imageLayoutVersion": "1.0.0"})
    return tar(File(name, content, mode=0o644) for name, content in sorted(blobs.items()))


def merge(archives: t.Iterable[Path]) -> bytes:
    """Merge the images of several archives into one."""
    blobs: t.Dict[str, bytes] = {}
    manifests: t.List[t.Any] = []
    for path in archives:
        with tarfile.open(path) as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                if content:
                    blobs[entry.name] = content.read()
        manifests += json.loads(blobs["index.json"])["manifests"]
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    blobs["index.json"] = json.dumps(index, sort_keys=True).encode()
    return tar(File(name, content, mode=0o644) for name, content in sorted(blobs.items()))


@contextlib.contextmanager
def debian_files(*packages: str) -> t.Iterator[Path]:
    """A directory with the files of Debian's packages."""
    say("downloading %s from Debian" % packages[0])
    BUILDING.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debian-", dir=BUILDING) as work:
        root = Path(work, "root")
        call(
            *("unshare", "--mount", "--propagation", "private"),
            *("mmdebstrap", "--quiet", "--mode=root", "--variant=extract", "--include=" + ",".join(packages)),
            *(SUITE, root),
            *filter(None, [os.environ.get("GPUFLEET_DEBIAN_MIRROR")]),
        )
        yield root


def busybox_program() -> Path:
    """Debian's static busybox."""
    if not BUSYBOX_PROGRAM.exists():
        with debian_files("busybox-static") as root:
            new = BUSYBOX_PROGRAM.with_name(".new-busybox")
            shutil.copy(root / "bin" / "busybox", new)
            os.replace(new, BUSYBOX_PROGRAM)
    return BUSYBOX_PROGRAM


def busybox_files(program: Path) -> t.Iterator[File]:
    for name in ("bin", "dev", "etc", "proc", "root", "sys"):
        yield File(name)
    yield File("tmp", mode=0o1777)
    yield File("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", mode=0o644)
    yield File("etc/group", b"root:x:0:\nnogroup:x:65534:\n", mode=0o644)
    yield File("bin/busybox", program.read_bytes())
    for name in call(program, "--list").split():
        if name != "busybox":
            yield File("bin/" + name, link="busybox")


def prepare() -> t.List[str]:
    """Build the images that are missing or out of date, and return the names of their archives."""
    with alone("podimages"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        pause, busybox = kubernetes.pause(), busybox_program()
        built = {
            "pause.tar": image(PAUSE, [File("pause", pause.read_bytes())], ["/pause"]),
            "busybox.tar": image(BUSYBOX, busybox_files(busybox), ["sh"]),
        }
        for name, content in built.items():
            update(IMAGES / name, content)
    return sorted(built)


def update(path: Path, content: bytes) -> None:
    """Replace a file whose content differs."""
    if not path.exists() or path.read_bytes() != content:
        new = path.with_name(".new-" + path.name)
        new.write_bytes(content)
        os.replace(new, path)
