# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The configuration of RKE2's containerd, which RKE2 renders at each start: from its own settings, or from a template."""

from __future__ import annotations

import json
import os
import re
import typing as t

from . import runtime_check

PROGRAM = "nvidia-container-runtime"
# RKE2 searches here before the PATH of its service.
FIRST_ON_PATH = "/usr/local/nvidia/toolkit"
TEMPLATES = ("config-v3.toml.tmpl", "config.toml.tmpl")
DROP_INS = ("config-v3.toml.d", "config.toml.d")
# A template with one of these includes RKE2's own configuration, or the runtimes that it detected.
_BASE = re.compile(r"\{\{-?\s*template\s+\"base\"")
_RUNTIMES = re.compile(r"\.(ExtraRuntimes|NvidiaConfig)\b")
_HEADER = re.compile(r"\s*\[([^\[].*)\]\s*(?:#.*)?")
_SEGMENT = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^.\s]+)")


def problems(templates: t.Mapping[str, str], drop_ins: t.Mapping[str, str], program: str) -> t.List[str]:
    """Reasons why containerd would not start or would lack the runtime nvidia. The files are given as path and content.

    ``program`` is the nvidia runtime that RKE2 finds, or empty. RKE2 uses only the first template.
    """
    found = []
    for path, text in list(templates.items())[:1]:
        names = runtime_check.handlers(text)
        included = _BASE.search(text) or _RUNTIMES.search(text)
        if "nvidia" in names and included and program:
            found.append(_TWICE % (path, program))
        elif program and not included and PROGRAM not in names.get("nvidia", ""):
            found.append(_REPLACED % path)
        repeated = duplicates(text)
        if repeated:
            found.append("%s defines the table %s twice, so containerd does not start" % (path, repeated[0]))
    for path, text in drop_ins.items():
        if "nvidia" in runtime_check.handlers(text) and program:
            found.append(_TWICE % (path, program))
    return found


_TWICE = (
    "%s defines the runtime nvidia, which RKE2 adds automatically because it finds %s. With duplicate tables, "
    "containerd may not start after the next restart. Remove the runtime from the file"
)
_REPLACED = (
    "%s is a complete containerd configuration without the runtime nvidia, and replaces RKE2's own at the "
    'next start. Remove the file, or begin it with {{ template "base" . }}'
)


def duplicates(text: str) -> t.List[str]:
    """The names of TOML tables that are defined more than once, regardless of quoting."""
    seen: t.Set[t.Tuple[str, ...]] = set()
    found = []
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        if header:
            segments = tuple("".join(parts) for parts in _SEGMENT.findall(header.group(1)))
            if segments in seen:
                found.append(".".join(segments))
            seen.add(segments)
    return found


def runtimes(info: str) -> t.Optional[t.Dict[str, str]]:
    """The runtimes that containerd reports through the Container Runtime Interface, with their programs.

    ``info`` is the output of `crictl info`. None if it cannot be parsed.
    """
    try:
        reported = json.loads(info)["config"]["containerd"]["runtimes"]
        return {
            str(name): str(((runtime or {}).get("options") or {}).get("BinaryName", ""))
            for name, runtime in reported.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def read_templates(directory: str) -> t.Dict[str, str]:
    """The templates in containerd's configuration directory, in RKE2's order of preference."""
    paths = [os.path.join(directory, name) for name in TEMPLATES]
    return {path: _text(path) for path in paths if os.path.isfile(path)}


def read_drop_ins(directory: str) -> t.Dict[str, str]:
    found = {}
    for name in DROP_INS:
        folder = os.path.join(directory, name)
        for each in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if each.endswith(".toml"):
                found[os.path.join(folder, each)] = _text(os.path.join(folder, each))
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
