# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start RKE2 on a node that is simulated by the output of its programs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import service as rke2_service

PROGRAM = "/usr/bin/nvidia-container-runtime"
RENDERED = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia'.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""
PLUGINS = "TYPE ID PLATFORMS STATUS\nio.containerd.cri.v1 runtime - ok\nio.containerd.grpc.v1 cri - ok\n"
REJECTED = 'level=error msg="failed to retrieve configuration from server: not authorized"'


class Machine:
    """systemd, journald and the tools of RKE2. The unit becomes active when it is started, unless it is set to fail."""

    def __init__(self) -> None:
        self.active, self.enabled, self.starts = False, True, True
        self.started = 0.0
        self.log = ""
        self.runtimes: t.Optional[t.Dict[str, t.Any]] = {"nvidia": {"options": {"BinaryName": PROGRAM}}}
        self.plugins: t.Optional[str] = PLUGINS
        self.toolkit = PROGRAM
        self.node_ready = "True"
        self.reported = time.time() + 1  # by the kubelet
        self.commands: t.List[str] = []

    def __call__(self, argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        words = " ".join(os.path.basename(word) if word.startswith("/") else word for word in argv)
        self.commands.append(words)
        if words.startswith("systemctl show --property=ActiveState"):
            return 0, self.show(), ""
        if words.startswith("systemctl show"):
            return 0, "LoadState=loaded\nNeedDaemonReload=no\n", ""
        if words.startswith("systemctl restart --no-block"):
            self.active, self.started = self.starts, time.monotonic()
            return 0, "", ""
        if words.startswith("systemctl stop"):
            self.active = False
            return 0, "", ""
        if words.startswith("journalctl"):
            return 0, self.log, ""
        if words.startswith("sh "):
            return 0, self.toolkit + "\n", ""
        if words.startswith("crictl"):
            known = {"config": {"containerd": {"runtimes": self.runtimes}}}
            return (127, "", "") if self.runtimes is None else (0, json.dumps(known), "")
        if words.startswith("ctr"):
            return (1, "", "") if self.plugins is None else (0, self.plugins, "")
        if "whoami" in words:
            return 0, "system:node:gpu-1", ""
        if "get node gpu-1" in words:
            condition = {
                "type": "Ready", "status": self.node_ready, "message": "cni plugin not initialized",
                "lastHeartbeatTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.reported)),
            }  # fmt: skip
            return 0, json.dumps({"status": {"conditions": [condition]}}), ""
        raise AssertionError(words)

    def show(self) -> str:
        state = {
            "ActiveState": "active" if self.active else "activating",
            "UnitFileState": "enabled" if self.enabled else "disabled",
            "MainPID": "7" if self.active else "0",
            "ExecMainStartTimestampMonotonic": str(int(self.started * 1e6)) if self.active else "0",
        }
        return "".join("%s=%s\n" % pair for pair in state.items())

    def ran(self, words: str) -> bool:
        return any(command.startswith(words) for command in self.commands)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(rke2_service, "PAUSE", 0.01)
    monkeypatch.setattr(rke2_service, "LASTING_ERROR_SECONDS", 0.05)
    monkeypatch.setattr(rke2_service, "CONFIG", str(tmp_path / "etc"))
    monkeypatch.setattr(rke2_service, "PREFIXES", [str(tmp_path / "local"), str(tmp_path / "usr")])
    (tmp_path / "etc" / "config.yaml.d").mkdir(parents=True)
    return Machine()


def node(machine: Machine, tmp_path: Path, **other: t.Any) -> rke2_service.Rke2Service:
    given = {
        "type": "agent", "data_path": str(tmp_path), "ready": True, "changed": False, "nvidia_runtime": "auto", **other,
    }  # fmt: skip
    return rke2_service.Rke2Service(given, machine)


def running(machine: Machine) -> Machine:
    machine.active, machine.started = True, time.monotonic()
    time.sleep(0.02)
    return machine


def test_a_stopped_service_is_started(machine: Machine, tmp_path: Path) -> None:
    rke2 = node(machine, tmp_path)
    assert rke2.reasons() == ["rke2-agent.service does not run"]
    machine.log = "Unknown flag --foo found in config.yaml, skipping"
    assert rke2.start(5) == ["foo"]
    assert machine.ran("systemctl restart --no-block rke2-agent.service")
    assert not machine.ran("systemctl daemon-reload")  # which can take GPUs from running containers
    assert rke2.reasons() == [] and rke2.name() == "gpu-1"


def test_a_running_service_is_restarted_if_files_changed(machine: Machine, tmp_path: Path) -> None:
    rke2 = node(running(machine), tmp_path)
    assert rke2.reasons() == []
    drop_in = tmp_path / "etc" / "config.yaml.d" / "50-gpufleet.yaml"
    drop_in.write_text("server: x\n")
    os.utime(drop_in, (0, 0))  # as files of an archive
    assert rke2.reasons() == ["%s changed after RKE2 was started" % drop_in]
    rke2.start(5)
    assert machine.ran("systemctl restart --no-block rke2-agent.service")


def test_a_change_of_this_run_is_a_reason(machine: Machine, tmp_path: Path) -> None:
    """Check mode has changed no file."""
    rke2 = node(running(machine), tmp_path, changed=True)
    assert rke2.reasons() == ["its program or configuration changed after RKE2 was started"]


def test_a_toolkit_that_was_installed_later_is_a_reason(machine: Machine, tmp_path: Path) -> None:
    machine.runtimes = {"runc": {}}
    assert node(running(machine), tmp_path).reasons() == ["RKE2 was started before the container toolkit was installed"]
    assert node(machine, tmp_path, nvidia_runtime="ignored").reasons() == []
    machine.toolkit = ""
    assert node(machine, tmp_path).reasons() == []  # a node without GPUs


def test_a_wrong_token_is_explained_from_the_log(machine: Machine, tmp_path: Path) -> None:
    machine.starts, machine.log = False, REJECTED
    before = time.monotonic()
    with pytest.raises(rke2_service.Failed, match="rke2-agent.service does not start. The server rejects the token"):
        node(machine, tmp_path).start(30)
    assert time.monotonic() - before < 10  # it does not wait for the whole time limit
    assert machine.ran("systemctl stop rke2-agent.service")  # it would retry forever


def test_an_upgraded_service_that_does_not_start_is_left_to_try_again(machine: Machine, tmp_path: Path) -> None:
    rke2 = node(running(machine), tmp_path)
    machine.starts, machine.log = False, REJECTED
    with pytest.raises(rke2_service.Failed):
        rke2.start(30)
    assert not machine.ran("systemctl stop")


def test_an_unreachable_server_may_still_come_up(machine: Machine, tmp_path: Path) -> None:
    machine.starts = False
    machine.log = 'level=error msg="failed to get CA certs: dial tcp 192.0.2.1:9345: connect: connection refused"'
    with pytest.raises(rke2_service.Failed, match="192.0.2.1:9345 does not respond"):
        node(machine, tmp_path).start(0.3)


def test_a_containerd_that_ends_is_explained_from_its_own_log(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "containerd"
    folder.mkdir(parents=True)
    (folder / "containerd.log").write_text("containerd: failed to load TOML: toml: table nvidia already exists\n")
    machine.starts, machine.log = False, 'level=error msg="containerd exited: exit status 1"'
    template = tmp_path / "agent" / "etc" / "containerd" / "config-v3.toml.tmpl"
    template.parent.mkdir(parents=True)
    template.touch()
    text = "The containerd configuration has duplicate tables. Remove those that RKE2 defines too from %s. " % template
    with pytest.raises(rke2_service.Failed, match=re.escape(text)):
        node(machine, tmp_path).start(0.3)


def test_an_unknown_cause_ends_with_the_log(machine: Machine, tmp_path: Path) -> None:
    machine.starts, machine.log = False, "level=info msg=a\nlevel=fatal msg=strange\n"
    with pytest.raises(rke2_service.Failed, match="did not start within 0 seconds.*ends with: level=fatal msg=strange"):
        node(machine, tmp_path).start(0.1)


def test_a_node_that_does_not_become_ready(machine: Machine, tmp_path: Path) -> None:
    machine.node_ready = "False"
    with pytest.raises(
        rke2_service.Failed, match="the node was not ready within 0 seconds: cni plugin not initialized"
    ):
        node(machine, tmp_path).start(0.1)
    node(machine, tmp_path, ready=False).start(5)


def test_a_report_from_before_the_start_does_not_count(machine: Machine, tmp_path: Path) -> None:
    machine.reported = time.time() - 60
    with pytest.raises(rke2_service.Failed, match="the kubelet has not reported since the start"):
        node(running(machine), tmp_path).start(0.1)
    assert node(machine, tmp_path).problems() == []


@pytest.mark.parametrize(
    ("runtimes", "rendered", "plugins", "words"),
    [
        ({"nvidia": {"options": {"BinaryName": PROGRAM}}}, "", None, ""),
        ({"nvidia": {}}, "", None, "its runtime nvidia names no program: set BinaryName"),
        ({"runc": {}}, RENDERED, PLUGINS, "does not have the runtime nvidia, only: runc"),
        (None, RENDERED, PLUGINS, ""),
        (None, "", PLUGINS, "does not have the runtime nvidia, only: none"),
        (None, RENDERED, None, "its containerd does not respond"),
        (None, RENDERED, "io.containerd.grpc.v1 cri - error\n", "no healthy CRI plugin"),
    ],
)
def test_the_running_containerd(
    machine: Machine, tmp_path: Path, runtimes: t.Any, rendered: str, plugins: t.Any, words: str
) -> None:
    folder = tmp_path / "agent" / "etc" / "containerd"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(rendered)
    machine.runtimes, machine.plugins = runtimes, plugins
    found = node(machine, tmp_path).nvidia_problem()
    assert bool(found) == bool(words) and words in found
    (folder / "config.toml.tmpl").touch()
    hidden = "config.toml.tmpl can hide it. Begin a template with" in node(machine, tmp_path).nvidia_problem()
    assert hidden == ("does not have the runtime" in words)


def test_a_required_toolkit_that_is_missing(machine: Machine, tmp_path: Path) -> None:
    machine.toolkit = ""
    assert "is not installed" in node(machine, tmp_path, nvidia_runtime="required").nvidia_problem()


def test_problems_of_a_running_service(machine: Machine, tmp_path: Path) -> None:
    assert "is not running or not enabled" in node(machine, tmp_path).problems()[0]
    running(machine)
    assert node(machine, tmp_path).problems() == []
    machine.runtimes, machine.node_ready = {"runc": {}}, "False"
    secrets = tmp_path / "etc" / "config.yaml.d" / "51-gpufleet-secrets.yaml"
    secrets.write_text("token: x\n")
    secrets.chmod(0o644)
    outdated, runtime, ready, mode = node(machine, tmp_path).problems()
    assert "51-gpufleet-secrets.yaml was changed after RKE2 was started" in outdated
    assert "does not have the runtime nvidia" in runtime
    assert ready.startswith("The node is not ready: cni plugin not initialized. ")
    assert "contains a secret, but has the mode 0644" in mode
    machine.enabled = False
    assert len(node(machine, tmp_path).problems()) == 1


@pytest.mark.parametrize("answer", ["", "[]", '{"status": {"conditions": []}}', '{"status": {}}'])
def test_answers_without_a_state(answer: str) -> None:
    assert rke2_service.ready_problem(answer) == "the node's state cannot be read"


def test_files_with_other_content_are_one_difference(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("x")
    (tmp_path / "other").write_text("y")
    checksum = hashlib.sha256(b"x").hexdigest()
    given = [{"path": str(tmp_path / name), "sha256": checksum} for name in ("same", "other", "missing")]
    (difference,) = rke2_service.differences([*given, {"path": str(tmp_path / "others"), "sha256": ""}])
    assert difference == (
        "Other settings than in the inventory: %s/other, %s/missing. Run site.yml --tags rke2" % (tmp_path, tmp_path)
    )
    assert rke2_service.differences(given[:1]) == []
