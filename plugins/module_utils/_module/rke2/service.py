# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module rke2_service: start or restart RKE2 if needed, and check that its containerd has the nvidia runtime.

RKE2's units have no start timeout, and an agent with a wrong token retries forever. The module therefore starts the
unit without waiting for systemd, and polls its state and log.
"""

from __future__ import annotations

import calendar
import json
import os
import stat
import time
import typing as t

from ..common import files, logs, systemd
from ..common.commands import Run, runner
from ..toolkit import runtime_check, runtime_service
from . import containerd
from . import log as rke2_log
from .artifacts import checksum
from .state import CONFIG, PREFIX, nvidia_program

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "type": {"type": "str", "required": True, "choices": ["server", "agent"]},
        "state": {"type": "str", "default": "started", "choices": ["started", "checked"]},
        "data_path": {"type": "path", "required": True},
        "nvidia_runtime": {"type": "str", "default": "auto", "choices": ["auto", "required", "ignored"]},
        "ready": {"type": "bool", "default": True},
        "changed": {"type": "bool", "default": False},
        "files": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "path": {"type": "path", "required": True},
                "sha256": {"type": "str", "required": True, "no_log": True},  # of a content with passwords
            },
        },
        "timeout": {"type": "int", "default": 600},
    }
}
PAUSE = 2.0  # seconds between polls
LASTING_ERROR_SECONDS = 30.0  # seconds for which RKE2 may repeat a lasting error
LINES_OF_CONTAINERD = 20
SOCKET = "/run/k3s/containerd/containerd.sock"
PREFIXES = (PREFIX, "/usr")  # of the archive and of the packages
SECRET_MODE = 0o077  # permissions of group and others


class Failed(Exception):
    """RKE2 does not run correctly. The message states the reason and the remedy."""


class Rke2Service:
    """RKE2 on this node."""

    def __init__(self, given: t.Mapping[str, t.Any], run: Run) -> None:
        self.unit = "rke2-%s.service" % given["type"]
        self.data_path = given["data_path"]
        self.run = run
        self.ready = given["ready"]
        self.changed = given["changed"]
        self.program = nvidia_program(run)
        self.needs_nvidia = given["nvidia_runtime"] == "required" or (
            given["nvidia_runtime"] == "auto" and bool(self.program)
        )

    # --- Current state ------------------------------------------------------------------------------------------------

    def service(self) -> runtime_service.Service:
        return runtime_service.service(self.unit, self.run)

    def sources(self) -> t.List[str]:
        """The files that RKE2 reads when it starts."""
        folder = os.path.join(CONFIG, "config.yaml.d")
        drop_ins = [
            os.path.join(folder, name) for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else [])
        ]
        name = self.unit.rpartition(".")[0]
        own = ["bin/rke2", "lib/systemd/system/" + self.unit, "lib/systemd/system/%s.env" % name]
        return [
            *(os.path.join(prefix, path) for prefix in PREFIXES for path in own),
            "/etc/default/" + name,
            "/etc/sysconfig/" + name,
            os.path.join(CONFIG, "config.yaml"),
            os.path.join(CONFIG, "registries.yaml"),
            *drop_ins,
        ]

    def changed_since(self, started: float) -> t.List[str]:
        """Files changed since the service was started, by ctime: unpacked files keep old modification times."""
        return [path for path in self.sources() if os.path.exists(path) and os.stat(path).st_ctime > started]

    def rendered(self) -> str:
        """The containerd configuration that RKE2 rendered."""
        return files.text(os.path.join(self.data_path, "agent", "etc", "containerd", "config.toml"))

    def nvidia_problem(self) -> str:
        """Why the running containerd cannot start containers with GPUs; empty if it can or does not have to."""
        if not self.needs_nvidia:
            return ""
        if not self.program:
            return _NO_PROGRAM
        tools = os.path.join(self.data_path, "bin")
        rc, out, _err = self.run([os.path.join(tools, "crictl"), "--runtime-endpoint", "unix://" + SOCKET, "info"])
        known = containerd.runtimes(out) if rc == 0 else None
        if known is None:
            known = runtime_check.handlers(runtime_check.settings(self.rendered()))
            rc, out, _err = self.run([os.path.join(tools, "ctr"), "--address", SOCKET, "plugins", "ls"])
            if rc != 0:
                return _NO_CONTAINERD % SOCKET
            if not runtime_check.cri_is_healthy(out):
                return _NO_CRI
        if "nvidia" in known:
            wrong = runtime_check.wrong_program(known["nvidia"])
            return "RKE2's containerd cannot give GPUs to containers: %s" % wrong if wrong else ""
        own = str(containerd.own_files(self.data_path))
        text = _UNKNOWN % (", ".join(sorted(known)) or "none", self.program)
        return text + _HIDDEN % own if own else text

    def not_ready(self, since: float = 0.0) -> str:
        """Why the node has not been ready since then, queried with the kubelet's credentials; empty if it is."""
        name = self.name()
        rc, out, err = self._kubectl("get", "node", name or "unknown", "--output", "json")
        return (
            ready_problem(out, since) if rc == 0 and name else rke2_log.shown(err) or "the API server does not respond"
        )

    def name(self) -> str:
        """The node's name in the cluster; empty if the API server does not respond."""
        rc, user, _err = self._kubectl("auth", "whoami", "--output", "jsonpath={.status.userInfo.username}")
        return user.strip().rpartition(":")[2] if rc == 0 else ""  # system:node:NAME

    def _kubectl(self, *arguments: str) -> t.Tuple[int, str, str]:
        program = os.path.join(self.data_path, "bin", "kubectl")
        access = os.path.join(self.data_path, "agent", "kubelet.kubeconfig")
        return self.run([program, "--kubeconfig", access, "--request-timeout", "10s", *arguments])

    def log(self, since: float) -> t.List[str]:
        """The log since then, with containerd's own log if containerd exited."""
        argv = ["journalctl", "--unit", self.unit, "--since", "@%d" % since, "--output", "cat", "--no-pager"]
        lines = logs.lines(self.run([*argv, "--lines", str(logs.LINES)])[1])
        if any("containerd exited" in line for line in lines):
            path = os.path.join(self.data_path, "agent", "containerd", "containerd.log")
            lines += logs.lines(files.text(path))[-LINES_OF_CONTAINERD:]
        return lines

    # --- Changes ------------------------------------------------------------------------------------------------------

    def reasons(self) -> t.List[str]:
        """Why the service must be started or restarted; empty if it runs the installed program and configuration."""
        found = self.service()
        if not found.active:
            return ["%s does not run" % self.unit]
        newer = self.changed_since(found.started)
        if newer or self.changed:
            return ["%s changed after RKE2 was started" % (newer[0] if newer else "its program or configuration")]
        if self.needs_nvidia and self.program and self.nvidia_problem():
            return ["RKE2 was started before the container toolkit was installed"]
        return []

    def start(self, timeout: float) -> t.List[str]:
        """Start or restart the unit, and wait until the node is ready. Returns the configuration keys that RKE2 ignored."""
        unit = systemd.properties(self.run, self.unit, "NeedDaemonReload", "LoadState")
        if unit.get("NeedDaemonReload") == "yes" or unit.get("LoadState") != "loaded":
            self.run(["systemctl", "daemon-reload"])
        running = self.service().active
        since = time.time()
        # Restart, because a unit that is still starting would keep its old configuration.
        rc, _out, err = self.run(["systemctl", "restart", "--no-block", self.unit])
        if rc != 0:
            raise Failed("%s cannot be started: %s" % (self.unit, err.strip()))
        self._wait(since, timeout, running)
        return rke2_log.ignored_keys(self.log(since))

    def _wait(self, since: float, timeout: float, was_running: bool) -> None:
        lasting_since = 0.0
        waiting_for = "systemd"
        while time.time() < since + timeout:
            time.sleep(PAUSE)
            found = self.service()
            if found.active and found.started >= since - 1:
                waiting_for = self.not_ready(since) if self.ready else ""
                if not waiting_for:
                    return
                lasting_since = 0.0
                continue
            why = rke2_log.explain(self.log(since))
            if why is None or not why.lasting:
                lasting_since = 0.0
            elif not lasting_since:
                lasting_since = time.time()
            elif time.time() - lasting_since >= LASTING_ERROR_SECONDS:
                break
        text = self._explained(since, waiting_for, timeout)
        if not was_running and not self.service().active:
            self.run(["systemctl", "stop", self.unit])  # it would retry forever
        raise Failed(text)

    def _explained(self, since: float, waiting_for: str, timeout: float) -> str:
        lines = self.log(since)
        if self.service().active:
            return _NOT_READY % (timeout, waiting_for)
        why = rke2_log.explain(lines, str(containerd.own_files(self.data_path)))
        if why:
            meaning = why.meaning[0].upper() + why.meaning[1:]
            return "%s does not start. %s. Its log: %s" % (self.unit, meaning, why.line)
        shown = " | ".join(rke2_log.tail(lines)) or "nothing"
        return "%s did not start within %d seconds. See journalctl -u %s, which ends with: %s" % (
            self.unit, timeout, self.unit, shown,
        )  # fmt: skip

    def problems(self) -> t.List[str]:
        """Problems of the running service."""
        found = self.service()
        if not found.active or not found.enabled:
            return [_STOPPED % (self.unit, self.unit)]
        newer = self.changed_since(found.started)
        problems = ["%s was changed after RKE2 was started. Run site.yml --tags rke2" % newer[0]] if newer else []
        why = self.nvidia_problem()
        if why:
            problems.append(why)
        if self.ready:
            why = self.not_ready()
            if why:
                problems.append("The node is not ready: %s. See journalctl -u %s" % (why.rstrip("."), self.unit))
        return problems + self._open_secrets()

    def _open_secrets(self) -> t.List[str]:
        """Files with secrets that other users can read. The kubeconfig has the mode that the owner configures."""
        paths = [os.path.join(self.data_path, "server", name) for name in ("token", "node-token", "agent-token")]
        paths.append(os.path.join(CONFIG, "config.yaml.d", "51-gpufleet-secrets.yaml"))
        return [
            "%s contains a secret, but has the mode %04o. Set it to 0600" % (path, stat.S_IMODE(os.stat(path).st_mode))
            for path in paths
            if os.path.exists(path) and os.stat(path).st_mode & SECRET_MODE
        ]


_STOPPED = "%s is not running or not enabled. See systemctl status %s, or run site.yml --tags rke2"
_NOT_READY = (
    "RKE2 runs, but the node was not ready within %d seconds: %s. See kubectl describe node, and agent/logs/kubelet.log in "
    "RKE2's data directory"
)
_NO_PROGRAM = (
    "nvidia-container-runtime is not installed, so RKE2 cannot add the runtime nvidia. Install the container toolkit "
    "(site.yml --tags toolkit), or set rke2_nvidia_runtime to ignored"
)
_NO_CONTAINERD = (
    "RKE2 runs, but its containerd does not respond on %s, so its runtimes are unknown. See journalctl -u rke2-*"
)
_NO_CRI = "RKE2 runs, but its containerd has no healthy CRI plugin. See agent/containerd/containerd.log in RKE2's data directory"
_UNKNOWN = (
    "RKE2's containerd does not have the runtime nvidia, only: %s. RKE2 searches for %s on the PATH of its service "
    "when it starts"
)
_HIDDEN = ', and %s can hide it. Begin a template with {{ template "base" . }}, or remove it'


def differences(compared: t.Iterable[t.Mapping[str, str]]) -> t.List[str]:
    """A problem if files have other content than the checksums; without a checksum, a file may have any."""
    paths = [each["path"] for each in compared if each["sha256"] not in ("", checksum(each["path"]))]
    text = "Other settings than in the inventory: %s. Run site.yml --tags rke2"
    return [text % ", ".join(paths)] if paths else []


def ready_problem(node: str, since: float = 0.0) -> str:
    """Why a node is not ready, from the output of kubectl; empty if it is.

    Shortly after a restart, the status may be the kubelet's report from before.
    """
    try:
        conditions = json.loads(node)["status"]["conditions"]
        ready = next(each for each in conditions if each["type"] == "Ready")
        if ready["status"] != "True":
            return rke2_log.shown(ready["message"])
        reported = calendar.timegm(time.strptime(ready["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ"))
        return "" if reported >= int(since) else "the kubelet has not reported since the start"
    except (ValueError, LookupError, TypeError, StopIteration):
        return "the node's state cannot be read"


def run(module: AnsibleModule) -> None:
    given = module.params
    rke2 = Rke2Service(given, runner(module))
    if given["state"] == "checked":
        module.exit_json(changed=False, problems=rke2.problems(), differences=differences(given["files"]))
    reasons = rke2.reasons()
    prepared = "".join("Start %s: %s\n" % (rke2.unit, reason) for reason in reasons)
    try:
        if reasons and not module.check_mode:
            ignored = rke2.start(given["timeout"])
            for key in ignored:
                module.warn("RKE2 ignores the unknown key %s in its configuration" % key)
        problem = rke2.nvidia_problem() if not module.check_mode else ""
        if problem:
            raise Failed(problem)
    except Failed as error:
        module.fail_json(msg=str(error), changed=bool(reasons))
    name = "" if module.check_mode and reasons else rke2.name()
    module.exit_json(
        changed=bool(reasons), reasons=reasons, node_name=name, diff={"prepared": prepared} if prepared else {}
    )
