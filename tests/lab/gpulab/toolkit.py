# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVIDIA Container Toolkit: its real programs, built with Go, in packages like the vendor's."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

from . import programs
from .packages import Package
from .places import BUILDING, LAB, LabError, alone, call, fingerprint, say

MODULE = "github.com/NVIDIA/nvidia-container-toolkit"
PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-container-runtime-hook")
VERSIONS = ("1.20.0", "1.20.1")
LINKING = (
    "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"  # NVML is loaded at run time
)
BUILT = LAB / "toolkit"


def build(version: str) -> Path:
    """Build the programs of a version, and copy their units to deployments/."""
    target = BUILT / version
    with alone("toolkit"):
        complete, wanted = target / "complete", fingerprint(Path(__file__))
        if complete.exists() and complete.read_text() == wanted:
            return target
        say("building the container toolkit %s with Go (about half a minute)" % version)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        BUILDING.mkdir(parents=True, exist_ok=True)
        environment = {**programs.environment(cgo=True), "GOBIN": str(target)}
        linking = "-ldflags=-s -w '-extldflags=%s' -X %s/internal/info.version=%s" % (LINKING, MODULE, version)
        commands = ["%s/cmd/%s@v%s" % (MODULE, name, version) for name in PROGRAMS]
        call(programs.go(), "install", *programs.FLAGS, linking, *commands, env=environment, cwd=BUILDING)
        source = Path(programs.download(MODULE, version)["Dir"])
        shutil.copytree(source / "deployments", target / "deployments")
        for path in (target / "deployments").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        output = call(target / "nvidia-ctk", "--version")
        if version not in output:
            raise LabError("nvidia-ctk should report version %s, but printed: %s" % (version, output))
        complete.write_text(wanted)
    return target


def packages() -> t.Iterator[Package]:
    """The four packages in every version. The two with the library, which is not written in Go, are empty."""
    for version in VERSIONS:
        built = build(version)
        systemd = built / "deployments" / "systemd"
        full = version + "-1"
        base_files = {"usr/bin/" + name: built / name for name in PROGRAMS[:3]}
        base_files["etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"] = systemd / "nvidia-cdi-refresh.env"
        for name in ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"):
            base_files["usr/lib/systemd/system/" + name] = systemd / name
        drop_in = systemd / "10-container-engines.conf"
        if drop_in.exists():
            base_files["usr/lib/systemd/system/nvidia-cdi-refresh.service.d/10-container-engines.conf"] = drop_in
        rules = built / "deployments" / "udev" / "99-nvidia-cdi-refresh.rules"
        if rules.exists():
            base_files["usr/lib/udev/rules.d/99-nvidia-cdi-refresh.rules"] = rules
        yield Package(
            "nvidia-container-toolkit-base",
            full,
            "",
            files=base_files,
            conffiles=["etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"],
            units=["nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"],
            postinst="/usr/bin/nvidia-ctk --quiet config"
            " --config-file=/etc/nvidia-container-runtime/config.toml --in-place\n",
            description="NVIDIA Container Toolkit, command line and runtime",
        )
        yield Package(
            "nvidia-container-toolkit",
            full,
            "",
            depends="nvidia-container-toolkit-base (= %s), libnvidia-container-tools (= %s)" % (full, full),
            files={"usr/bin/nvidia-container-runtime-hook": built / "nvidia-container-runtime-hook"},
            links={"usr/bin/nvidia-container-toolkit": "/usr/bin/nvidia-container-runtime-hook"},
            description="NVIDIA Container Toolkit",
        )
        yield Package("libnvidia-container-tools", full, "", depends="libnvidia-container1 (>= %s)" % full)
        yield Package("libnvidia-container1", full, "")
