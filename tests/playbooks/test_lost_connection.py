# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection to a node is lost between two tasks of the role nvidia_mig, and the next run completes the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import Fleet

PLAYBOOK = """
- hosts: gpu_nodes
  gather_facts: false
  roles: [gpufleet.node.nvidia_mig]
"""
# While the record of the change exists, each command takes one from the number in the node's file, down to zero.
CONNECTION = '''
DOCUMENTATION = """
name: lossy
short_description: A local connection that is lost during the change
extends_documentation_fragment: [connection_pipelining]
"""

from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import local


class Connection(local.Connection):
    def exec_command(self, cmd, in_data=None, sudoable=True):
        node = Path(__file__).parents[1] / self._play_context.remote_addr
        left = node / "left"
        if left.exists() and (node / "records" / "mig-change.json").exists():
            number = int(left.read_text())
            if not number:
                raise AnsibleConnectionFailure("the connection is lost")
            left.write_text(str(number - 1))
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
'''
# Keeps one file for each running unit of the node.
SYSTEMCTL = """#!/bin/sh
units=${NVSIM_STATE%/*}/units
for unit; do :; done
case $1 in
    list-units) for each in "$@"; do test ! -e "$units/$each" || echo "$each loaded active running"; done ;;
    is-active) test -e "$units/$unit" ;;
    stop) rm "$units/$unit" ;;
    start) touch "$units/$unit" ;;
    show) echo LoadState=loaded ;;
    *) exit 1 ;;
esac
"""
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
INSTANCES = ["1g.10gb at 0", "1g.10gb at 1", "1g.10gb at 2", "3g.40gb at 4"]
RECORD = "records/mig-change.json"
CLIENT = "nvidia-dcgm.service"
# Commands after the clients are stopped: apply, start the clients, refresh CDI, copy the record of the change (five),
# remove the record of the clients.
COMMANDS = 9


@pytest.fixture(name="nodes")
def fixture_nodes(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Nodes with a running client. The number of each is that of the commands before its connection is lost."""
    programs, connections = fleet.work / "bin", fleet.work / "connection_plugins"
    for path, text in ((programs / "systemctl", SYSTEMCTL), (connections / "lossy.py", CONNECTION)):
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    nodes = {"node%d" % number: fleet.work / ("node%d" % number) for number in range(COMMANDS + 1)}
    for number, (name, path) in enumerate(nodes.items()):
        fleet.node(name, "--board", "H100-80GB", ansible_connection="lossy")
        (path / "left").write_text(str(number))
        (path / "units").mkdir()
        (path / "units" / CLIENT).touch()
        # In the directory of the lock, which a group may share with root.
        (path / "mig-change.json").write_text('{"stopped": ["attack.service"]}')
    return nodes


def test_the_next_run_completes_the_change(fleet: Fleet, nodes: dict[str, Path]) -> None:
    playbook = fleet.work / "mig.yml"
    playbook.write_text(PLAYBOOK)
    run = fleet.play(playbook, fails=True, nvidia_mig_layout=LAYOUT)
    *lost, complete = nodes
    assert [name for name in nodes if run.count(name, "unreachable")] == lost, "COMMANDS differs from the role"
    assert [(nodes[name] / RECORD).exists() for name in nodes] == [True] * COMMANDS + [False]
    assert not (nodes[lost[0]] / "units" / CLIENT).exists()

    for path in nodes.values():
        (path / "left").unlink()
    run = fleet.play(playbook, nvidia_mig_layout=LAYOUT)
    assert [run.count(complete, "changed"), run.count(lost[0], "changed")] == [0, 4]
    for name, path in nodes.items():
        assert fleet.instances(name) == [INSTANCES]
        assert [each.name for each in (path / "units").iterdir()] == [CLIENT]
        assert (path / "records/mig-last-change").exists() and not (path / RECORD).exists()

    run = fleet.play(playbook, nvidia_mig_layout=LAYOUT)
    assert [run.count(name, "changed") for name in nodes] == [0] * len(nodes)
