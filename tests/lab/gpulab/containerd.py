# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A containerd newer than Debian's: its real programs in a package like Docker's containerd.io."""

from __future__ import annotations

from pathlib import Path

from . import programs
from .packages import FILES, Package

SOURCE = programs.SOURCES["containerd"]


def unit() -> str:
    """The unit of containerd, which starts the program in /usr/local/bin."""
    return (programs.folder_of("containerd") / "containerd.service").read_text()


def package() -> Package:
    """A package of the release with the stricter parser; the nodes of a cluster have the newest release."""
    source = programs.SOURCES["containerd-2.3"]
    built = programs.build()
    unit_file = built / "containerd.service"
    unit_file.write_text(unit().replace("/usr/local/bin/", "/usr/bin/"))
    files = {"usr/bin/" + Path(name).name: built / name for name in (*source.programs, "runc")}
    files["usr/lib/systemd/system/containerd.service"] = unit_file
    files["etc/containerd/config.toml"] = FILES / "containerd.toml"
    return Package(
        "containerd.io",
        source.version + "-1",
        "",
        files=files,
        conffiles=["etc/containerd/config.toml"],
        description="An open and reliable container runtime",
    )
