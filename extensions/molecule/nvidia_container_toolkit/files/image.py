# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create a minimal image and load it: image.py NAME... -- COMMAND...

The image holds this node's ls and sleep with their libraries. The command gets it on its standard input, in the format
of docker save. Containers sleep by default, like the sandbox container of a pod.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import typing as t

PROGRAMS = ("/bin/ls", "/bin/sleep")
DIRECTORIES = ("dev", "etc", "proc", "sys", "tmp", "usr/lib/x86_64-linux-gnu", "var")


def files() -> bytes:
    libraries = re.findall(r"/[^ :]+", subprocess.check_output(("ldd", *PROGRAMS), encoding="utf-8"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as layer:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        for path in sorted({*PROGRAMS, *libraries}):
            layer.add(path)
    return packed.getvalue()


def image(names: t.Sequence[str]) -> bytes:
    layer = files()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]
    parts = {
        "layer.tar": layer,
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def main(words: t.Sequence[str]) -> None:
    end = words.index("--")
    subprocess.run(words[end + 1 :], input=image(words[:end]), check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
