# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files in every node's /opt/gpufleet-lab: the simulator, and the programs that simulate its kernel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

from .places import BUILDING, CACHE, HERE, SHARED, SSH_KEY, TOP, LabError, alone, call, fingerprint, say

SIMULATOR = CACHE / "simulator" / "libnvidia-ml.so.1"
UNAME = HERE / "uname.c"
SMI_VERSIONS = ("550.163.01", "535.261.03")  # of Debian's packages; all nodes use the first that is available


def real_nvidia_smi() -> t.Optional[Path]:
    paths = [CACHE / "nvidia-smi" / version / "nvidia-smi" for version in SMI_VERSIONS]
    return next((path for path in paths if path.exists()), None)


def sources() -> t.Dict[str, Path]:
    """Source files by their path below the shared directory."""
    found = {"bin/" + path.name: path for path in (HERE / "node").iterdir()}
    found["lib/libnvidia-ml.so.1"] = SIMULATOR
    found["ssh.pub"] = SSH_KEY.with_suffix(".pub")
    smi = real_nvidia_smi()
    if smi:
        found["bin/nvidia-smi.real"] = smi
    package = TOP / "simulator" / "nvsim"
    for folder in (package, package / "bin", package / "data", package / "recorded"):
        files = [path for path in folder.iterdir() if path.is_file()]
        found.update({"python/nvsim/%s" % path.relative_to(package): path for path in files})
    boards = TOP / "plugins" / "plugin_utils" / "_layout" / "models"
    found.update({"python/nvsim/models/" + path.name: path for path in boards.glob("*.yml")})
    yaml = importlib.util.find_spec("yaml")
    if not yaml or not yaml.origin:
        raise LabError("PyYAML is missing: call the lab through tests/lab/lab, which uses the project's environment")
    found.update({"python/yaml/" + path.name: path for path in Path(yaml.origin).parent.glob("*.py")})
    return found


def prepare() -> None:
    """Update the shared directory. Files are replaced atomically, because running nodes use them."""
    call("make", "-s", "-C", TOP / "simulator")
    with alone("opt"):
        if not SSH_KEY.exists():
            SSH_KEY.parent.mkdir(parents=True, exist_ok=True)
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpufleet-lab", "-f", SSH_KEY)
        wanted = sources()
        stamp = SHARED / ".stamp"
        mark = fingerprint(UNAME, *(part for name, path in sorted(wanted.items()) for part in (name, path)))
        if stamp.exists() and stamp.read_text() == mark:
            return
        say("installing the simulator for the nodes")
        for name, path in wanted.items():
            place(path, SHARED / name)
        library(SHARED / "lib" / "libcuda.so.1", Path("/dev/null"))
        library(SHARED / "lib" / "uname.so", UNAME)
        link = SHARED / "python" / "nvsim" / "lib"
        if not link.is_symlink():
            link.symlink_to("../../lib")
        stamp.write_text(mark)


def place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(".new-" + target.name)
    shutil.copy(source, new)
    os.replace(new, target)


def library(target: Path, source: Path) -> None:
    """Compile a library. From /dev/null an empty one: CDI specifications list libcuda, but nothing here uses CUDA."""
    BUILDING.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILDING) as work:
        made = Path(work) / target.name
        call(
            *(os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wl,-soname," + target.name),
            *("-x", "c", source, "-o", made),
        )
        place(made, target)
