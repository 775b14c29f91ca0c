# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Check that a container runtime's service runs and offers the nvidia runtime. Changes nothing."""

from __future__ import annotations

import json
import re
import time
import typing as t

from ..common import files, logs, toml
from ..common.commands import Run
from .container_runtimes import PROGRAM, Runtime
from .runtime_service import Service, service

PROC = "/proc"
ATTEMPTS = 10
PAUSE = 1.0  # seconds between attempts

_SOCKET = "/run/containerd/containerd.sock"
# The plugins with the runtimes of Kubernetes, in configurations of version 3 and 4, 2, and 1.
CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")


class Health(t.NamedTuple):
    """The problems, and whether Kubernetes could start pods (always true for docker)."""

    problems: t.List[str]
    cri_healthy: bool = True


def check(name: str, runtime: Runtime, run: Run) -> Health:
    state = service(name, run)
    if not state.active:
        return Health([_STOPPED % (name, name)], cri_healthy=False)
    if name == "containerd":
        health = _containerd(state, runtime, run)
    elif _offers(name, run):
        health = Health([])
    else:
        health = Health([_UNKNOWN % (name, runtime.config, name)])
    return health if state.enabled else Health([_DISABLED % name, *health.problems], health.cri_healthy)


def _offers(name: str, run: Run) -> bool:
    """Whether docker or CRI-O has the runtime nvidia."""
    if name == "docker":
        return "nvidia" in _json(_answer(["docker", "info", "--format", "{{json .Runtimes}}"], run))
    shown = _answer(["crio", "status", "config"], run)
    return "nvidia" in (toml.at(settings(shown), "crio", "runtime", "runtimes") or {})


def _containerd(state: Service, runtime: Runtime, run: Run) -> Health:
    """The CRI plugin must be healthy. containerd may accept a configuration with which the plugin does not work."""
    rc, dump, err = run(["containerd", *_config_option(state.pid), "config", "dump"])
    found = settings(dump)
    ctr = ["ctr", "--address", address(found), "plugins", "ls"]
    plugins = _answer(ctr, run)
    if rc != 0:
        return Health([_REJECTED % last_line(err)], not plugins or cri_is_healthy(plugins))
    if not plugins:
        return Health([_NO_ANSWER])
    if not cri_is_healthy(plugins):
        _rc, cri, _err = run([*ctr, "--detailed", "id==cri", "type==io.containerd.cri.v1"])
        details = reported(cri)
        return Health([_NO_CRI % (details or "the plugin is not loaded")], cri_healthy=False)
    known = handlers(found)
    if "nvidia" not in known:
        return Health([_NO_RUNTIME % (", ".join(sorted(known)), runtime.config)])
    wrong = wrong_program(known["nvidia"])
    if wrong:
        return Health(["containerd runs, but %s" % wrong])
    if state.is_older_than(runtime.drop_in):
        return Health(["containerd was started before %s was written. Restart containerd" % runtime.drop_in])
    return Health([])


_STOPPED = "%s is not running. See systemctl status %s, or run site.yml --tags toolkit"
_DISABLED = "%s runs, but is not enabled, so it does not start at boot. Run site.yml --tags toolkit"
_UNKNOWN = (
    "%s runs, but does not offer the nvidia runtime. It may have been started with a configuration other than %s: see "
    "systemctl cat %s"
)
_REJECTED = (
    "containerd runs, but would not start again: containerd config dump fails with: %s. Correct its configuration before "
    "the next restart"
)
_NO_ANSWER = "containerd runs, but ctr plugins ls fails, so its CRI plugin cannot be checked. Install ctr, or see journalctl -u containerd"
_NO_CRI = (
    "containerd has no healthy CRI plugin with the nvidia runtime added, so Kubernetes cannot start pods. If its "
    'configuration lists "cri" in disabled_plugins, as that of Docker\'s package does, remove it from the list, or leave '
    "containerd out of nvidia_container_toolkit_runtimes. ctr plugins ls reports: %s"
)
_NO_RUNTIME = (
    "containerd runs, but its only runtimes are %s. Its service may read a configuration other than %s: see "
    "systemctl cat containerd"
)


def reported(plugins: str) -> str:
    """The messages in the output of ctr plugins ls --detailed."""
    return "; ".join(text.rstrip() for text in re.findall(r"Message:\s*(\S.*)", "\n".join(logs.lines(plugins))))


def _answer(argv: t.Sequence[str], run: Run) -> str:
    """The service's response, retried for a few seconds after a start. Empty if there is none."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        rc, out, _err = run(argv)
        if rc == 0:
            return out
    return ""


def _json(text: str) -> t.Mapping[str, t.Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _config_option(pid: int) -> t.List[str]:
    """The configuration that the running containerd was started with."""
    words = files.text("%s/%d/cmdline" % (PROC, pid)).split("\0")
    for place, word in enumerate(words):
        if word in ("--config", "-c") and place + 1 < len(words):
            return ["--config", words[place + 1]]
        if word.startswith(("--config=", "-c=")):
            return ["--config", word.split("=", 1)[1]]
    return []


def settings(text: str) -> toml.Table:
    """What a tool prints in TOML; empty if it printed something else."""
    try:
        return toml.loads(text)
    except toml.TomlError:
        return {}


def address(config: toml.Table) -> str:
    """The socket of containerd. Since configurations of version 4, a plugin has it."""
    server = toml.at(config, "plugins", "io.containerd.server.v1.grpc", "address")
    return str(server or toml.at(config, "grpc", "address") or _SOCKET)


def handlers(config: toml.Table) -> t.Dict[str, str]:
    """Names of the runtimes in the configuration of containerd's CRI plugin, with their programs."""
    found: t.Dict[str, str] = {}
    for plugin in CRI:
        runtimes = toml.at(config, "plugins", plugin, "containerd", "runtimes")
        for name, runtime in runtimes.items() if isinstance(runtimes, dict) else ():
            found[name] = found.get(name) or str(toml.at(runtime, "options", "BinaryName") or "")
    return found


def wrong_program(program: str) -> str:
    """Why the program of the runtime nvidia cannot give GPUs to containers; empty if it can. Without a full stop."""
    if PROGRAM in program:
        return ""
    what = "runs %s" % program if program else "names no program"
    return "its runtime nvidia %s: set BinaryName in the options of that runtime to the path of %s" % (what, PROGRAM)


def loading_problem(dump: str) -> str:
    """Why containerd would not offer the runtime nvidia as other runtimes, from `containerd config dump`; or nothing."""
    config = settings(dump)
    if cri_disabled(config):
        return ""  # containerd then prints no runtimes. Without the plugin, the service is not healthy
    known = handlers(config)
    if "nvidia" not in known:
        return "it does not have the runtime nvidia, only: %s" % (", ".join(sorted(known)) or "none")
    wrong = wrong_program(known["nvidia"])
    if wrong:
        return wrong
    for plugin in CRI:
        cri = toml.at(config, "plugins", plugin, "containerd")
        default = toml.at(cri, "default_runtime_name")
        if default and default not in known:
            return "it lacks the default runtime %s" % default
        groups = [
            bool(toml.at(cri, "runtimes", name, "options", "SystemdCgroup"))
            for name in ("nvidia", "runc" if default == "nvidia" else default)
        ]
        if groups == [False, True]:
            return _CGROUPS
    return ""


_CGROUPS = (
    "the runtime nvidia lacks SystemdCgroup, which the default runtime has from an imported file. Move the table of the "
    "default runtime from the imported file to config.toml"
)


def cri_disabled(config: toml.Table) -> bool:
    """Whether the configuration of containerd disables its CRI plugin."""
    names = config.get("disabled_plugins") or []
    return not {"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}.isdisjoint(names)


def last_line(text: str) -> str:
    """Why a program failed: the last line that it printed, without a full stop."""
    lines = text.strip().splitlines()
    return lines[-1].strip().rstrip(".")[:300] if lines else "no message"


def cri_is_healthy(plugins: str) -> bool:
    """From `ctr plugins ls`: since containerd 2.0, the CRI plugin has several parts, which must all be healthy."""
    states = [line.split() for line in plugins.splitlines()]
    cri = [state[-1] for state in states if state[:2] == ["io.containerd.grpc.v1", "cri"]]
    parts = [state[-1] for state in states if state[:1] == ["io.containerd.cri.v1"]]
    return cri == ["ok"] and set(parts) <= {"ok"}
