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
from ..toolkit import runtime_check
from ..toolkit.container_runtimes import PROGRAM
from . import go_template

# RKE2 searches here before the PATH of its service.
FIRST_ON_PATH = "/usr/local/nvidia/toolkit"
TEMPLATES = ("config-v3.toml.tmpl", "config.toml.tmpl")
DROP_INS = ("config-v3.toml.d", "config.toml.d")
# A template with one of these includes the runtimes that RKE2 detects.
_RUNTIMES = re.compile(r"\.(ExtraRuntimes|NvidiaConfig)\b")
_DEFAULT_RUNTIME = "plugins.'io.containerd.cri.v1.runtime'.containerd"
# k3s-io/k3s pull request 13680, 2026-02; confidential-dot-ai/c8s pull request 622 shows it in RKE2 1.36.4.
_IMPORTS = {"imports = []": "the release imports config-v3.toml.d or config.toml.d itself, as 1.36 does"}
# {{ template "base" . }} by version: the keys and tables that a node always has, and others with the reason. From k3s'
# pkg/agent/templates and from rendered files of k3s and RKE2 1.31 to 1.36, read on 2026-11-27.
_BASES: t.Mapping[int, t.Tuple[str, t.Mapping[str, str]]] = {
    3: (
        """version = 3
root = "R"
state = "S"
[grpc]
[plugins.'io.containerd.internal.v1.opt']
[plugins.'io.containerd.grpc.v1.cri']
[plugins.'io.containerd.cri.v1.runtime']
[plugins.'io.containerd.cri.v1.images']
[plugins.'io.containerd.cri.v1.images'.pinned_images]
[plugins.'io.containerd.cri.v1.images'.registry]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
""",
        {
            "[%s]" % _DEFAULT_RUNTIME: "default-runtime is set. Set default-runtime in RKE2's "
            "configuration instead of this table",
            "[plugins.'io.containerd.cri.v1.runtime'.cni]": "a path of network plugins is set",
            **_IMPORTS,
        },
    ),
    2: (
        """version = 2
[plugins."io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
[plugins."io.containerd.grpc.v1.cri".containerd]
[plugins."io.containerd.grpc.v1.cri".registry]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
""",
        {
            "[grpc]": "the release sets containerd's socket there",
            '[plugins."io.containerd.grpc.v1.cri".cni]': "a path of network plugins is set",
            **_IMPORTS,
        },
    ),
}
_PLUGINS = {3: "io.containerd.cri.v1.runtime", 2: "io.containerd.grpc.v1.cri"}
_RUNTIME = {
    3: """[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
""",
    2: """[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
""",
}


class Findings(t.NamedTuple):
    """Why containerd would not start or would lack the runtime nvidia, and what only its start shows."""

    problems: t.List[str]
    warnings: t.List[str]


def check(
    templates: t.Mapping[str, str], drop_ins: t.Mapping[str, str], program: str, default_runtime: bool = False
) -> Findings:
    """Check templates and drop-ins, given as path and content.

    ``program`` is the nvidia runtime that RKE2 finds, or empty; ``default_runtime`` whether its configuration sets
    default-runtime. RKE2 uses only the first template.
    """
    findings = Findings([], [])
    for path, text in list(templates.items())[:1]:
        try:
            _check_template(path, text, program, default_runtime, findings)
        except go_template.TemplateError as error:
            findings.warnings.append(_UNCHECKED % (path, error))
    for path, text in drop_ins.items():  # containerd merges them: a table that RKE2 defines too is no error
        try:
            toml.loads(text)
        except toml.TomlError as error:
            findings.problems.append("%s is not valid TOML, so containerd does not start: %s" % (path, error))
    return findings


def _check_template(path: str, text: str, program: str, default_runtime: bool, findings: Findings) -> None:
    template = go_template.parse(text)
    version = 3 if os.path.basename(path).startswith("config-v3") else 2
    base, conditional = _BASES[version]
    if default_runtime and version == 3:
        line = "[%s]" % _DEFAULT_RUNTIME
        base += line + "\n"
        conditional = {each: reason for each, reason in conditional.items() if each != line}  # it is there
    included = template.has_base or bool(_RUNTIMES.search(text))
    own = _parsed(*template.renderings(""))
    own_names = [runtime_check.handlers(table) for table in own.tables]
    # containerd accepts the runtime beside the base in the table of another version.
    where = runtime_check.CRI if not template.has_base else [_PLUGINS[version]]
    twice = ["nvidia" in runtime_check.handlers(table, where) for table in own.tables]
    if own.errors:
        _report(path, own, template.plain, "%s defines the table %s twice, so containerd does not start", findings)
    elif program and included and any(twice):
        (findings.problems if all(twice) else findings.warnings).append(_DUPLICATE_RUNTIME % (path, program))
    elif template.has_base:
        whole = _parsed(*template.renderings(base + (_RUNTIME[version] if program else "")))
        _report(path, whole, template.plain, _IN_BASE, findings)
        for line, reason in conditional.items() if not whole.errors else ():
            if _parsed(*template.renderings("%s\n%s" % (line, base))).errors:
                findings.warnings.append(_MAY_BE_IN_BASE % (path, line.partition(" =")[0], reason))
    elif program and not included:
        lacking = [PROGRAM not in names.get("nvidia", "") for names in own_names]
        if all(lacking) and own.complete:
            findings.problems.append(_REPLACED % path)
        elif any(lacking):
            findings.warnings.append(_UNCHECKED % (path, "the runtime nvidia depends on its conditions"))


class _Parsed(t.NamedTuple):
    tables: t.List[toml.Table]
    errors: t.List[toml.TomlError]
    complete: bool


def _parsed(texts: t.Sequence[str], complete: bool) -> _Parsed:
    found = _Parsed([], [], complete)
    for text in texts:
        try:
            found.tables.append(toml.loads(text))
        except toml.TomlError as error:
            found.errors.append(error)
    return found


def _report(path: str, found: _Parsed, plain: bool, twice: str, findings: Findings) -> None:
    """A problem if containerd cannot start whatever the template's conditions are; a warning if that depends on them."""
    if not found.errors:
        return
    error = found.errors[0]
    certain = found.complete and not found.tables
    if isinstance(error, toml.DuplicateKeyError) and certain:
        findings.problems.append(twice % (path, error.name))
    elif certain and plain:
        findings.problems.append("%s is not valid TOML, so containerd does not start: %s" % (path, error))
    else:
        findings.warnings.append(_UNCHECKED % (path, "with some of its conditions, %s" % error))


_DUPLICATE_RUNTIME = (
    "%s defines the runtime nvidia, which RKE2 adds automatically because it finds %s. With duplicate tables, "
    "containerd may not start after the next restart. Remove the runtime from the file"
)
_IN_BASE = (
    '%s defines the table %s, which {{ template "base" . }} defines too, so containerd does not start. Remove the table, '
    "and set its keys in RKE2's configuration, or in a drop-in if this release imports config-v3.toml.d or config.toml.d"
)
_MAY_BE_IN_BASE = '%s defines %s. {{ template "base" . }} defines it too if %s. containerd then does not start'
_REPLACED = (
    "%s is a complete containerd configuration without the runtime nvidia, and replaces RKE2's own at the "
    'next start. Remove the file, or begin it with {{ template "base" . }}'
)
_UNCHECKED = "%s cannot be checked before RKE2 starts: %s. The runtime nvidia is checked after the start"


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
    return {path: files.text(path) for path in paths if os.path.isfile(path)}


def read_drop_ins(directory: str) -> t.Dict[str, str]:
    found = {}
    for name in DROP_INS:
        folder = os.path.join(directory, name)
        for each in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if each.endswith(".toml"):
                found[os.path.join(folder, each)] = files.text(os.path.join(folder, each))
    return found
