# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of a Kubernetes cluster on the lab's nodes."""

from __future__ import annotations

import os
from pathlib import Path

from . import programs
from .places import LAB, PROGRAMS, alone, call

BUILT = LAB / "kubernetes"
BIN = PROGRAMS / "bin"
PAUSE_VERSION = "3.10.2"  # of the pause program in this version of Kubernetes


def pause() -> Path:
    """Build the program that holds the namespaces of a pod."""
    target = BUILT / ("pause-" + PAUSE_VERSION)
    with alone("kubernetes-pause"):
        if not target.exists():
            source = programs.folder_of("kubernetes") / "build" / "pause" / "linux" / "pause.c"
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_name(".new-pause")
            version = "-DVERSION=v" + PAUSE_VERSION
            call(os.environ.get("CC", "cc"), "-Os", "-static", version, "-o", new, source)
            os.replace(new, target)
    return target


def kwok_stages(*names: str) -> str:
    """The stages of kwok in these files of its module: they simulate the lifecycle of nodes and pods."""
    folder = programs.folder_of("kwok") / "kustomize" / "stage"
    return "\n---\n".join((folder / (name + ".yaml")).read_text() for name in names)


def prepare() -> None:
    """Build the programs, and link them into the directory that all nodes mount."""
    built = programs.build()
    with alone("kubernetes"):  # two scenarios may start at the same time
        for source in programs.SOURCES.values():
            for program in source.programs:
                link(built / program, BIN / program)


def link(source: Path, target: Path) -> None:
    """Replace the target with a hard link, which also works in a directory that nodes mount."""
    if target.exists() and target.samefile(source):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(".new-" + target.name)
    new.unlink(missing_ok=True)
    os.link(source, new)
    os.replace(new, target)
