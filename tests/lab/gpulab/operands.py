# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image of the stand-ins for the programs of NVIDIA's charts, and of pods that use a GPU.

The stand-ins (tests/lab/operands) are Python programs on Debian's packages. Their image has the names of the originals'
images, so that a chart's values select it. An image that is imported later under one of these names replaces it.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import typing as t
from pathlib import Path

from . import charts, podimages
from .places import BUILDING, HERE, LAB, LabError, alone, call, fingerprint, say

SOURCES = HERE / "operands"
PACKAGES = ("libpython3-stdlib", "python3-grpcio", "python3-minimal", "python3-protobuf", "python3-yaml")
BASE = LAB / "kubernetes" / "python.tar"
LIBRARY = "usr/lib/python3/dist-packages/"
GLIBC = "localhost/glibc:1"  # for pods that use a GPU: with glibc, which the injected nvidia-smi needs
ARCHIVE = "operands.tar"
PROGRAMS = {
    "config-manager": "config_manager",
    "gpu-feature-discovery": "gpu_feature_discovery",
    "gpu-operator": "gpu_operator",
    "nfd-worker": "node_feature_discovery",
    "nvidia-device-plugin": "device_plugin",
    "nvidia-mig-manager": "mig_manager",
    "nvidia-validator": "validator",
    "upgrade-crd": "upgrade_crd",
}
SCRIPT = "#!/usr/bin/python3 -I\nfrom operands import %s\n\n%s.main()\n"


def base() -> bytes:
    """Debian's Python, with the libraries that the stand-ins need, as a layer."""
    wanted = fingerprint(" ".join(PACKAGES), podimages.SUITE)
    stamp = BASE.with_suffix(".stamp")
    if not BASE.exists() or not stamp.exists() or stamp.read_text() != wanted:
        say("downloading Python for pods from Debian")
        BUILDING.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="python-", dir=BUILDING) as work:
            new = Path(work, "root.tar")
            call(
                *("unshare", "--mount", "--propagation", "private"),
                *("mmdebstrap", "--quiet", "--mode=root", "--variant=extract", "--include=" + ",".join(PACKAGES)),
                *("--dpkgopt=path-exclude=/usr/share/*", '--customize-hook=find "$1/dev" -mindepth 1 -delete'),
                *(podimages.SUITE, new),
                *filter(None, [os.environ.get("GPUFLEET_DEBIAN_MIRROR")]),
            )
            os.replace(new, BASE)
        stamp.write_text(wanted)
    return BASE.read_bytes()


def files() -> t.Iterator[podimages.File]:
    for path in sorted(SOURCES.glob("*.py")):
        yield podimages.File(LIBRARY + "operands/" + path.name, path.read_bytes(), mode=0o644)
    pynvml = importlib.util.find_spec("pynvml")
    if not pynvml or not pynvml.origin:
        raise LabError("pynvml is missing: call the lab through tests/lab/lab, which uses the project's environment")
    yield podimages.File(LIBRARY + "pynvml.py", Path(pynvml.origin).read_bytes(), mode=0o644)
    for name, module in PROGRAMS.items():
        yield podimages.File("usr/bin/" + name, (SCRIPT % (module, module)).encode())


def prepare() -> t.List[str]:
    """Build the image if it is missing or out of date, and return the name of its archive."""
    with alone("operands"):
        layer, plain = base(), list(podimages.busybox_files(podimages.busybox_program()))
        names = [GLIBC, *charts.images()]
        made = podimages.image(charts.IMAGE, [*plain, *files()], ["sh"], base=layer, names=names)
        podimages.update(podimages.IMAGES / ARCHIVE, made)
    return [ARCHIVE]
