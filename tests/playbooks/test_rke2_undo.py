# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node of the cluster undo deletes, with a stand-in for the server's kubectl."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import ansible_playbook

KUBECTL = '#!/bin/sh\necho "$*" >>%s\necho \'node "gpu-1" deleted\'\n'


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
    record = {"data_path": str(tmp_path / "forged"), "node_name": recorded}
    (tmp_path / "record").write_text(json.dumps({"record": record}))
    variables = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    hosts = {"gpu-1.example.com": {}, "server-1": {"rke2_data_path": str(tmp_path / "server")}}
    groups = {"masters": {"hosts": {"server-1": {}}}}
    inventory = {"all": {"vars": variables, "hosts": hosts, "children": groups}}
    (tmp_path / "inventory.json").write_text(json.dumps(inventory))
    play = {
        "hosts": "gpu-1.example.com",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.command": {"argv": ["cat", tmp_path / "record"]}, "register": "read"},
            {
                "ansible.builtin.include_role": {"name": "gpufleet.node.rke2", "tasks_from": "delete_node"},
                "vars": {"__rke2_recorded": "{{ read.stdout | from_json }}"},
            },
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play], default=str))
    run = ansible_playbook(tmp_path, "-i", tmp_path / "inventory.json", tmp_path / "play.yml")
    assert run.status == 0, run.output
    assert not (tmp_path / "calls-of-forged").exists()
    calls = tmp_path / "calls-of-server"
    assert calls.exists() == deleted
    if deleted:
        assert calls.read_text().endswith(" delete --ignore-not-found -- node %s\n" % recorded)
    assert ("No node is deleted from the cluster" in run.output) != deleted
