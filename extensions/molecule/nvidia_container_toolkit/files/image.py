# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create an image of a folder in the format of docker save: image.py FOLDER FILE NAME...

The default command sleeps, like that of a pod's sandbox container.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import typing as t


def main(folder: str, target: str, *names: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        layer.add(folder, arcname=".")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(packed.getvalue()).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]
    parts: t.Dict[str, bytes] = {
        "layer.tar": packed.getvalue(),
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(target, mode="w") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
