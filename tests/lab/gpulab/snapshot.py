# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dated snapshot of real package repositories: what the lab's repositories may offer."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

import yaml

PATH = (
    Path(__file__).resolve().parents[3] / "tests" / "unit" / "plugins" / "plugin_utils" / "_driver" / "repositories.yml"
)


@functools.lru_cache(maxsize=None)
def load() -> t.Dict[str, t.Any]:
    return t.cast(t.Dict[str, t.Any], yaml.safe_load(PATH.read_text()))


def has(system: str, source: str, branch: str, name: str) -> bool:
    """Whether a system's archive or its CUDA repository has a package; the latter for a driver branch.

    The snapshot has no module packages of single kernels: they count as present if their series has one.
    """
    if source == "archive":
        return re.sub(r"-(\d+\.\d+)\.0-\d+-([a-z]+)$", r"-\2-\1", name) in archive(system)
    return re.sub(r"^(kmod-nvidia)-\d.*", r"\1-VERSION-KERNEL", name) in names(system, branch)


def cuda_has(system: str, driver: str) -> bool:
    """Whether a system's CUDA repository has a driver version: the version is a real one and the branch was seen."""
    cuda = load()["cuda"]
    return driver in cuda["releases"] and driver.partition(".")[0] in cuda["systems"][system]["branches"]


@functools.lru_cache(maxsize=None)
def archive(system: str) -> t.FrozenSet[str]:
    """Names of all packages in a distribution's archive."""
    known = load()["archives"][system]
    found = {name for row in known["packages"].values() for name in row}
    for kind, series in known.get("modules", {}).items():
        found |= {"linux-modules-nvidia-%s-%s" % (kind, each) for each in series}
        found |= {"%s-%s" % (name, each) for name in ("linux-image", "linux-headers") for each in series}
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def names(system: str, branch: str) -> t.FrozenSet[str]:
    """Names of the packages of a driver branch in a system's CUDA repository."""
    found, absent = set(), set()
    for row in load()["cuda"]["names"][load()["cuda"]["systems"][system]["family"]]:
        if row["since"] <= int(branch) < row.get("before", 1000):
            found |= {name.format(b=branch) for name in row["names"]}
            absent |= {name.format(b=branch) for name in row.get("absent", ())}
    return frozenset(found - absent)
