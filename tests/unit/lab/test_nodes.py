# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removal of nodes after an interrupted run whose files were deleted."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from gpulab import nodes
from gpulab.places import LABNS, LabError

# Process ids: conmon and init of a node of this checkout; aardvark-dns of the lab's mount namespace and of another.
CONMON, INIT, DNS, OTHER_DNS = 100, 101, 102, 103


class Machine:
    """A machine with processes of nodes, whose podman lists no container."""

    def __init__(self, *running: int) -> None:
        self.running = set(running)
        self.calls: t.List[str] = []

    def processes(self, program: str, _place: Path = Path("/")) -> t.Dict[int, t.List[str]]:
        known = {"conmon": {CONMON}, "aardvark-dns": {DNS, OTHER_DNS}}[program]
        return {pid: [program] for pid in sorted(known & self.running)}

    def kill(self, pid: int, _signal: int) -> None:
        self.calls.append("kill %d" % pid)
        self.running.remove(pid)

    def call(self, *command: t.Union[str, Path], **_options: t.Any) -> str:
        self.calls.append(" ".join(str(part) for part in command).replace(str(LABNS), "labns"))
        if "address" in command:
            return json.dumps([{"ifname": "podman1"}])
        return json.dumps([{"ifname": "veth0"}] if "master" in command and INIT in self.running else [])

    def podman(self, *arguments: t.Union[str, Path]) -> str:
        return self.call("podman", *arguments)


@pytest.fixture(name="down")
def fixture_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[Machine], t.List[str]]:
    """Run `lab down` for the nodes of a machine, and return what it did."""

    def down(machine: Machine) -> t.List[str]:
        for name in ("processes", "call", "podman"):
            monkeypatch.setattr(nodes, name, getattr(machine, name))
        monkeypatch.setattr(os, "kill", machine.kill)
        nodes.everything_down()
        return machine.calls

    for name in ("LAB", "NODES", "SOCKETS"):
        monkeypatch.setattr(nodes, name, tmp_path / name)
    monkeypatch.setattr(nodes, "GONE", 0.3)
    monkeypatch.setattr(nodes, "succeeds", lambda *_command: False)
    monkeypatch.setattr(nodes, "children", {CONMON: [INIT]}.__getitem__)
    monkeypatch.setattr(nodes, "mount_namespace", lambda pid: "lab" if pid in (CONMON, DNS) else "machine")
    monkeypatch.setattr(nodes.vm, "stop_all", lambda: None)
    return down


def test_nodes_whose_files_were_deleted_are_killed(down: t.Callable[[Machine], t.List[str]]) -> None:
    machine = Machine(CONMON, INIT, DNS, OTHER_DNS)
    calls = down(machine)
    assert calls[:6] == [
        *("podman rm --force --time 1 --all", "kill 100", "kill 101", "kill 102"),
        *("labns --destroy", "podman rm --force --time 1 --all"),
    ]
    assert calls[-1] == "ip link delete podman1"
    assert machine.running == {OTHER_DNS}


def test_nothing_is_killed_if_podman_has_removed_all_nodes(down: t.Callable[[Machine], t.List[str]]) -> None:
    calls = down(Machine(DNS, OTHER_DNS))
    assert not any(call.startswith(("kill", "labns")) for call in calls)


def test_a_bridge_that_other_nodes_use_is_reported_with_a_remedy(down: t.Callable[[Machine], t.List[str]]) -> None:
    """Their checkout had another path, so that their processes are not recognized."""
    with pytest.raises(LabError, match="use the bridge podman1.*lsns --type net, kill .*labns --destroy, and then"):
        down(Machine(INIT))


def test_failures_of_podman_are_reported(
    down: t.Callable[[Machine], t.List[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_which: str) -> None:
        raise LabError("podman failed")

    monkeypatch.setattr(nodes, "podman_rm", fail)
    with pytest.raises(LabError, match="podman failed"):
        down(Machine())
