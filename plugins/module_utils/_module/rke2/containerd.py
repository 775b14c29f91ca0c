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

from ..common import files, toml
from ..toolkit.container_runtimes import PROGRAM

# RKE2 searches here before the PATH of its service.
FIRST_ON_PATH = "/usr/local/nvidia/toolkit"
# In RKE2's order of preference, with the CRI plugin in the configuration of that version.
_TEMPLATES = {"config-v3.toml.tmpl": "io.containerd.cri.v1.runtime", "config.toml.tmpl": "io.containerd.grpc.v1.cri"}
_DROP_INS = ("config-v3.toml.d", "config.toml.d")
_BASE = re.compile(r"\{\{-?\s*template\s+[\"`]base[\"`]")
_ADDED_RUNTIMES = re.compile(r"\.(ExtraRuntimes|NvidiaConfig)\b")  # those that RKE2 detects
_NVIDIA = (
    r"(?m)^\s*\[\s*plugins\s*\.\s*[\"']%s[\"']\s*\.\s*containerd\s*\.\s*runtimes\s*\.\s*[\"']?nvidia[\"']?\s*[.\]]"
)


class Files(t.NamedTuple):
    """The administrator's own files. RKE2 uses only one template."""

    template: str
    drop_ins: t.Sequence[str]

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.template, *self.drop_ins]))


def own_files(data_path: str) -> Files:
    folder = os.path.join(data_path, "agent", "etc", "containerd")
    templates = (os.path.join(folder, name) for name in _TEMPLATES)
    directories = [each for each in (os.path.join(folder, name) for name in _DROP_INS) if os.path.isdir(each)]
    drop_ins = [os.path.join(each, name) for each in directories for name in sorted(os.listdir(each))]
    return Files(next(filter(os.path.isfile, templates), ""), [path for path in drop_ins if path.endswith(".toml")])


def config_problems(own: Files, program: str) -> t.List[str]:
    """Faults that a restart would turn into a node without containerd, or without GPUs.

    ``program`` is the nvidia runtime that RKE2 finds, or empty. Other faults of a template show when RKE2 renders it.
    """
    found = [_template_problem(own.template, program)] if own.template and program else []
    for path in own.drop_ins:  # containerd merges them: a table that RKE2 defines too is no error
        try:
            toml.loads(files.text(path))
        except toml.TomlError as error:
            found.append("%s is not valid TOML, so containerd does not start: %s" % (path, error))
    return [*filter(None, found)]


def _template_problem(path: str, program: str) -> str:
    text = files.text(path)
    if _BASE.search(text) or _ADDED_RUNTIMES.search(text):
        # containerd accepts the runtime in the table of another version.
        defined = re.search(_NVIDIA % re.escape(_TEMPLATES[os.path.basename(path)]), text)
        return _DUPLICATE_RUNTIME % (path, program) if defined else ""
    return "" if PROGRAM in text or "{{" in text else _REPLACED % path


_DUPLICATE_RUNTIME = (
    "%s defines the runtime nvidia, which RKE2 adds automatically because it finds %s. With duplicate tables, "
    "containerd may not start after the next restart. Remove the runtime from the file"
)
_REPLACED = (
    "%s is a complete containerd configuration without the runtime nvidia, and replaces RKE2's own at the "
    'next start. Remove the file, or begin it with {{ template "base" . }}'
)


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
