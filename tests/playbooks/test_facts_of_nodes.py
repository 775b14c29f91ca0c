# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node whose modules return facts with the names of variables. By default, Ansible prefers them to the inventory."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import Run, ansible_playbook

INTERPRETER = "#!/bin/sh\necho '%s'\n"
MESSAGE = "the node returns facts with the names of variables, which they would replace: %s. Somebody may control"

RESULT = {"changed": False, "stat": {"exists": False}, "stdout": "/nonexistent", "files": []}


def attack(tmp_path: Path, forged: t.Mapping[str, t.Any], role: str, tasks: str) -> Run:
    """Run a task file of a role in check mode, on a node that returns forged facts."""
    python = tmp_path / "python"
    python.write_text(INTERPRETER % json.dumps({**RESULT, "ansible_facts": forged}))
    python.chmod(0o755)
    hosts = {
        "gpu-1": {"ansible_python_interpreter": str(python), "gpu_cluster_host": "server-1"},
        "server-1": {"ansible_python_interpreter": sys.executable},
    }
    inventory = {"all": {"vars": {"ansible_connection": "local", "ansible_become": False}, "hosts": hosts}}
    (tmp_path / "inventory.json").write_text(json.dumps(inventory))
    include = {"ansible.builtin.include_role": {"name": "gpufleet.node." + role, "tasks_from": tasks}}
    play = {"hosts": "gpu-1", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}, include]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    arguments = ("--check", "-i", tmp_path / "inventory.json", tmp_path / "play.yml")
    return ansible_playbook(tmp_path, *arguments, ANSIBLE_INJECT_FACT_VARS="true")


def test_a_node_does_not_choose_programs_that_the_server_runs(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ntouch %s\n" % (tmp_path / "executed"))
    program.chmod(0o755)
    run = attack(tmp_path, {"gpu_cluster_server_python": str(program)}, "gpu_cluster", "main")
    assert not (tmp_path / "executed").exists(), run.output
    assert run.status == 2
    assert MESSAGE % "gpu_cluster_server_python" in run.output


@pytest.mark.parametrize(
    ("role", "tasks", "variable"),
    [
        ("gpu_cluster", "connect", "inventory_hostname"),  # the node to drain
        ("gpu_cluster", "connect", "gpu_cluster_kubeconfig_keep"),  # a file of the controller to write
        ("gpu_node", "drain", "gpu_node_drain_tasks"),  # and to execute
        ("gpu_node", "return_with_tasks", "gpu_node_return_tasks"),
        ("nvidia_mig", "export", "nvidia_mig_export_path"),  # and to write
        ("nvidia_mig", "pynvml_wheel", "nvidia_mig_pynvml_wheel"),  # and to read
        ("rke2", "preflight", "rke2_data_path"),  # a directory of a server
    ],
)
def test_a_node_does_not_choose_files_of_the_controller(tmp_path: Path, role: str, tasks: str, variable: str) -> None:
    path = tmp_path / "file"
    run = attack(tmp_path, {variable: str(path), "python": {"executable": "python3"}}, role, tasks)
    assert run.status == 2
    assert MESSAGE % variable in run.output
    assert str(path) not in run.output
