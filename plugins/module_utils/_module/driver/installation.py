# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How the driver of a node was installed: packages of the role would replace only half of some installations."""

from __future__ import annotations

import os
import re
import typing as t

from ..common import commands

# Files that NVIDIA's installer creates and its --uninstall removes: its record and its other name. The log
# /var/log/nvidia-installer.log is no evidence, because it stays. github.com/NVIDIA/nvidia-installer 590.48.01
# (2025-12-18), backup.c and nvidia-installer.c.
_RUN_FILE = ("var/lib/nvidia/log", "usr/bin/nvidia-uninstall")
_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
# The last is where images of machines mount a driver. Read on a virtual machine with an H200, 2026-11-28.
_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib64")
# Guest driver and host manager, each with kernel module and libraries in one package of NVIDIA's licensing portal, such
# as nvidia-linux-grid-580_580.178.04_amd64.deb, nvidia-linux-grid-595-595.91.07-1.x86_64.rpm (a public list of
# downloads, huggingface.co/datasets/futureflsl/vgpu-chinese-mirror), nvidia-vgpu-ubuntu-535_535.161.05_amd64.deb and
# NVIDIA-vGPU-rhel-8.9-550.163.02.x86_64.rpm (NVIDIA's vGPU user guide, release 16). All read on 2026-11-27.
VGPU = re.compile("nvidia-linux-grid-|nvidia-vgpu-|NVIDIA-vGPU-")
# Of RPM Fusion (github.com/rpmfusion/xorg-x11-drv-nvidia, its spec file) and ELRepo (nvidia-x11-drv, which its own
# kmod-nvidia requires). Read on 2026-11-27.
_OTHER = re.compile("akmod-nvidia|xorg-x11-drv-nvidia|nvidia-x11-drv")


class DriverInstallation(t.NamedTuple):
    """``method`` is ``packages``, ``run_file``, ``vgpu_packages``, ``other_packages``, ``files`` (libraries that belong
    to no package), or ``none``; None if it cannot be read. ``evidence`` has packages or absolute paths."""

    method: t.Optional[str]
    evidence: t.Tuple[str, ...] = ()


def read(
    run: commands.Run, root: str, names: t.Optional[t.Sequence[str]], driver: t.Sequence[str]
) -> DriverInstallation:
    """The installation that packages of the role would replace only half, if there is one.

    ``names`` are all installed packages with NVIDIA's name, None if unknown, and ``driver`` those of the driver.
    """
    for method, pattern in (("vgpu_packages", VGPU), ("other_packages", _OTHER)):
        found = tuple(sorted(name for name in names or () if pattern.match(name)))
        if found:
            return DriverInstallation(method, found)
    for path in _RUN_FILE:
        if os.path.lexists(os.path.join(root, path)):
            return DriverInstallation("run_file", ("/" + path,))
    owned = {path: _is_owned(run, path) for path in _libraries(root)}
    if False in owned.values():
        return DriverInstallation("files", tuple(path for path in owned if owned[path] is False))
    if names is None or None in owned.values():
        return DriverInstallation(None)
    return DriverInstallation("packages" if driver or owned else "none", tuple(driver))


def _libraries(root: str) -> t.List[str]:
    """The driver's libraries, with the names of the files that links lead to."""
    paths = [os.path.join(root, folder, name) for folder in _FOLDERS for name in _LIBRARIES]
    real = [os.path.realpath(path) for path in paths if os.path.exists(path)]
    return sorted({"/" + os.path.relpath(path, os.path.realpath(root)) for path in real})


def _is_owned(run: commands.Run, path: str) -> t.Optional[bool]:
    """Whether a file belongs to a package; None if no package manager knows.

    dpkg may list the file in another folder, such as /lib instead of /usr/lib. A node may have the commands of both
    package managers.
    """
    queries = (["dpkg-query", "--search", "*/" + os.path.basename(path)], ["rpm", "--query", "--file", path])
    statuses = {run(query)[0] for query in queries} - {commands.MISSING}
    if 0 in statuses:
        return True
    return False if statuses == {1} else None
