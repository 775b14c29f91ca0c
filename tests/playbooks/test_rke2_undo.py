# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node of the cluster undo deletes, and what it shows otherwise, with a stand-in for the server's kubectl."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import Run, ansible_playbook

KUBECTL = '#!/bin/sh\necho "$*" >>%s\necho \'node "gpu-1" deleted\'\n'
FORBIDDEN = "#!/bin/sh\necho 'Error from server (Forbidden): nodes is forbidden' >&2\nexit 1\n"


def undo(path: Path, recorded: str, **server: object) -> Run:
    """Run the part of undo that deletes the node, with a server that has these variables."""
    (path / "record").write_text(json.dumps({"record": {"data_path": str(path / "forged"), "node_name": recorded}}))
    variables = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    hosts = {"gpu-1.example.com": {}, "server-1": {"rke2_data_path": str(path / "server"), **server}}
    groups = {"masters": {"hosts": {"server-1": {}}}}
    (path / "inventory.json").write_text(json.dumps({"all": {"vars": variables, "hosts": hosts, "children": groups}}))
    play = {
        "hosts": "gpu-1.example.com",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.command": {"argv": ["cat", path / "record"]}, "register": "read"},
            {
                "ansible.builtin.include_role": {"name": "gpufleet.node.rke2", "tasks_from": "delete_node"},
                "vars": {"__rke2_recorded": "{{ read.stdout | from_json }}"},
            },
        ],
    }
    (path / "play.yml").write_text(json.dumps([play], default=str))
    return ansible_playbook(path, "-i", path / "inventory.json", path / "play.yml")


@pytest.mark.parametrize(
    ("recorded", "deleted"),
    [("gpu-1.example.com", True), ("gpu-1", True), ("server-1", False), ("--all", False), ("{{ 'gpu-1' }}", False)],
)
def test_undo_deletes_only_the_node_of_the_host(tmp_path: Path, recorded: str, deleted: bool) -> None:
    """The record, which the host can forge, selects neither another node nor a program on the server."""
    for name in ("server", "forged"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "kubectl").write_text(KUBECTL % (tmp_path / ("calls-of-" + name)))
        (tmp_path / name / "bin" / "kubectl").chmod(0o755)
    run = undo(tmp_path, recorded)
    assert run.status == 0, run.output
    assert not (tmp_path / "calls-of-forged").exists()
    calls = tmp_path / "calls-of-server"
    assert calls.exists() == deleted
    if deleted:
        assert calls.read_text().endswith(" delete --ignore-not-found -- node %s\n" % recorded)
    assert ("No node is deleted from the cluster" in run.output) != deleted
    assert "could not be deleted" not in run.output


@pytest.mark.parametrize(
    ("kubectl", "server", "reason"),
    [
        (FORBIDDEN, {}, "nodes is forbidden"),
        (None, {}, "Error executing command. If"),
        (FORBIDDEN, {"ansible_connection": "ssh", "ansible_host": "server-1.invalid"}, "server-1.invalid"),
    ],
    ids=["forbidden", "without kubectl", "unreachable"],
)
def test_a_node_that_could_not_be_deleted_is_shown(
    tmp_path: Path, kubectl: t.Optional[str], server: t.Dict[str, str], reason: str
) -> None:
    """Undo does not fail, because the cluster may no longer exist."""
    (tmp_path / "server" / "bin").mkdir(parents=True)
    if kubectl:
        (tmp_path / "server" / "bin" / "kubectl").write_text(kubectl)
        (tmp_path / "server" / "bin" / "kubectl").chmod(0o755)
    run = undo(tmp_path, "gpu-1", **server)
    assert run.status == 0, run.output
    message = run.output.partition("the node gpu-1 could not be deleted from the cluster: ")[2]
    assert reason in message and "kubectl delete node gpu-1" in message
