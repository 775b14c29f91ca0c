# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A containerd newer than Debian's: its real programs, built with Go, in a package like Docker's containerd.io."""

from __future__ import annotations

import json
import os
import shutil
import typing as t
from pathlib import Path

from .packages import FILES, Package
from .places import LAB, LabError, alone, call, say
from .toolkit import go

VERSION = "2.4.2"
RUNC_VERSION = "1.4.3"
MODULE = "github.com/containerd/containerd/v2"
RUNC = "github.com/opencontainers/runc"
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
BUILT = LAB / "containerd" / VERSION


def build() -> Path:
    """Build the programs, and copy their unit."""
    with alone("containerd"):
        if (BUILT / "complete").exists():
            return BUILT
        say("building containerd %s with Go (about two minutes)" % VERSION)
        shutil.rmtree(BUILT, ignore_errors=True)
        BUILT.mkdir(parents=True)
        # Go honours the replace directives of these modules only from a module that requires them.
        (BUILT / "go.mod").write_text("module gpufleet.invalid/lab\n")
        compile_all({**os.environ, "GOFLAGS": "-mod=mod -modcacherw"})
        said = call(BUILT / "containerd", "--version") + call(BUILT / "runc", "--version")
        if VERSION not in said or RUNC_VERSION not in said:
            raise LabError(
                "containerd and runc should report versions %s and %s, but printed: %s" % (VERSION, RUNC_VERSION, said)
            )
        (BUILT / "complete").touch()
    return BUILT


def compile_all(environment: t.Mapping[str, str]) -> None:
    program = go()
    commands = [MODULE + "/cmd/" + name for name in PROGRAMS]
    wanted = [*(command + "@v" + VERSION for command in commands), RUNC + "@v" + RUNC_VERSION]
    call(program, "get", "-tool", *wanted, env=environment, cwd=BUILT)
    for names, version, cgo in (
        (commands, "%s/version.Version=%s" % (MODULE, VERSION), "0"),
        (
            [RUNC],
            "main.version=" + RUNC_VERSION,
            "1",
        ),  # runc enters namespaces in C; without seccomp it needs no library
    ):
        call(
            *(program, "build", "-ldflags", "-s -w -X " + version, "-o", str(BUILT) + "/", *names),
            env={**environment, "CGO_ENABLED": cgo},
            cwd=BUILT,
        )
    source = Path(json.loads(call(program, "list", "-m", "-json", MODULE, env=environment, cwd=BUILT))["Dir"])
    unit = (source / "containerd.service").read_text()
    (BUILT / "containerd.service").write_text(unit.replace("/usr/local/bin/", "/usr/bin/"))


def package() -> Package:
    built = build()
    files = {"usr/bin/" + name: built / name for name in (*PROGRAMS, "runc")}
    files["usr/lib/systemd/system/containerd.service"] = built / "containerd.service"
    files["etc/containerd/config.toml"] = FILES / "containerd.toml"
    return Package(
        "containerd.io",
        VERSION + "-1",
        "",
        files=files,
        conffiles=["etc/containerd/config.toml"],
        description="An open and reliable container runtime",
    )
