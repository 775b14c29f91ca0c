# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Check that a container runtime's service runs and offers the nvidia runtime. Changes nothing."""

from __future__ import annotations

import json
import os
import re
import time
import typing as t

from . import files, systemd
from .container_runtimes import Runtime

Run = t.Callable[[t.Sequence[str]], t.Tuple[int, str, str]]

PROC = "/proc"
ATTEMPTS = 10
PAUSE = 1.0  # seconds between attempts

_SOCKET = "/run/containerd/containerd.sock"
_PROGRAM = "nvidia-container-runtime"


class Service(t.NamedTuple):
    """A service, as systemd reports it."""

    active: bool
    enabled: bool
    pid: int
    started: float  # seconds since the epoch; 0 if it does not run

    def is_older_than(self, path: str) -> bool:
        """Whether it was started before the file was written, and therefore cannot have read it."""
        return self.active and os.path.exists(path) and os.stat(path).st_mtime > self.started


def service(name: str, run: Run) -> Service:
    properties = "--property=ActiveState,UnitFileState,MainPID,ExecMainStartTimestampMonotonic"
    _rc, out, _err = run(["systemctl", "show", properties, name])
    found = systemd.properties(out)
    monotonic = int(found.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    return Service(
        found.get("ActiveState") == "active",
        found.get("UnitFileState") == "enabled",
        int(found.get("MainPID") or 0),
        time.time() - time.monotonic() + monotonic if monotonic else 0.0,
    )


class Health(t.NamedTuple):
    """The problems, and whether Kubernetes could start pods (always true for docker)."""

    problems: t.List[str]
    cri_healthy: bool = True


def check(name: str, runtime: Runtime, run: Run) -> Health:
    state = service(name, run)
    if not state.active or not state.enabled:
        return Health([_STOPPED % (name, name)])
    if name == "containerd":
        return _containerd(state, runtime, run)
    if name == "docker":
        known = "nvidia" in _json(_answer(["docker", "info", "--format", "{{json .Runtimes}}"], run))
    else:
        known = "[crio.runtime.runtimes.nvidia]" in _answer(["crio", "status", "config"], run)
    if known:
        return Health([])
    return Health(
        [
            "%s runs, but does not offer the nvidia runtime. It may have been started with a configuration other than %s: "
            "see systemctl cat %s." % (name, runtime.config, name)
        ]
    )


def _containerd(state: Service, runtime: Runtime, run: Run) -> Health:
    """The CRI plugin must be healthy. containerd may accept a configuration with which the plugin does not work."""
    _rc, dump, _err = run(["containerd", *_config_option(state.pid), "config", "dump"])
    ctr = ["ctr", "--address", address(dump), "plugins", "ls"]
    plugins = _answer(ctr, run)
    if not plugins:
        return Health([_NO_ANSWER])
    if not cri_is_healthy(plugins):
        _rc, cri, _err = run([*ctr, "--detailed", "id==cri", "type==io.containerd.cri.v1"])
        details = "; ".join(re.findall(r"Message:\s*(.*\S)", cri))
        return Health([_NO_CRI % (details or "the plugin is not loaded")], cri_healthy=False)
    known = handlers(dump)
    if _PROGRAM not in known.get("nvidia", ""):
        return Health([_NO_RUNTIME % (", ".join(sorted(known)), runtime.config)])
    if state.is_older_than(runtime.drop_in):
        return Health(["containerd was started before %s was written. Restart containerd." % runtime.drop_in])
    return Health([])


_STOPPED = "%s is not running or not enabled. See systemctl status %s, or run site.yml --tags toolkit."
_NO_ANSWER = "containerd runs, but ctr plugins ls fails, so its CRI plugin cannot be checked. Install ctr, or see journalctl -u containerd."
_NO_CRI = (
    "containerd has no healthy CRI plugin with the nvidia runtime added, so Kubernetes cannot start pods. If its "
    'configuration lists "cri" in disabled_plugins, as that of Docker\'s package does, remove it from the list, or leave '
    "containerd out of nvidia_container_toolkit_runtimes. ctr plugins ls reports: %s."
)
_NO_RUNTIME = (
    "containerd runs, but its only runtimes are %s. Its service may read a configuration other than %s: see "
    "systemctl cat containerd."
)


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
    words = (files.read("%s/%d/cmdline" % (PROC, pid)) or b"").decode(errors="replace").split("\0")
    for place, word in enumerate(words):
        if word in ("--config", "-c") and place + 1 < len(words):
            return ["--config", words[place + 1]]
        if word.startswith(("--config=", "-c=")):
            return ["--config", word.split("=", 1)[1]]
    return []


def sections(dump: str) -> t.Iterator[t.Tuple[str, t.Dict[str, str]]]:
    """The strings in a TOML document, by table. Python's own TOML parser needs 3.11."""
    name, strings = "", {}  # type: str, t.Dict[str, str]
    for line in dump.splitlines():
        header = re.match(r"\s*\[([^\[].*)\]\s*$", line)
        if header:
            yield name, strings
            name, strings = header.group(1), {}
        else:
            string = re.match(r"\s*(\w+)\s*=\s*[\"'](.*)[\"']\s*$", line)
            if string:
                strings[string.group(1)] = string.group(2)
    yield name, strings


def address(dump: str) -> str:
    """The socket of containerd."""
    return next(
        (table["address"] for name, table in sections(dump) if name == "grpc" and table.get("address")), _SOCKET
    )


def handlers(dump: str) -> t.Dict[str, str]:
    """Names of the runtimes in the configuration of containerd's CRI plugin, with their programs."""
    found: t.Dict[str, str] = {}
    for name, strings in sections(dump):
        match = re.match(r"plugins\..*cri.*\.containerd\.runtimes\.[\"']?([\w-]+)[\"']?(\.options)?$", name)
        if match:
            found[match.group(1)] = found.get(match.group(1)) or strings.get("BinaryName", "")
    return found


def cri_disabled(dump: str) -> bool:
    """Whether the configuration of containerd disables its CRI plugin."""
    line = re.search(r"^disabled_plugins\s*=\s*\[([^\]]*)\]", dump, re.MULTILINE)
    names = re.findall(r"[\"']([^\"']*)[\"']", line.group(1)) if line else []
    return not {"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}.isdisjoint(names)


def cri_is_healthy(plugins: str) -> bool:
    """From `ctr plugins ls`: since containerd 2.0, the CRI plugin has several parts, which must all be healthy."""
    states = [line.split() for line in plugins.splitlines()]
    cri = [state[-1] for state in states if state[:2] == ["io.containerd.grpc.v1", "cri"]]
    parts = [state[-1] for state in states if state[:1] == ["io.containerd.cri.v1"]]
    return cri == ["ok"] and set(parts) <= {"ok"}
