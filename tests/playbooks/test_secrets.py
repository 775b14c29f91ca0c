# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets are in no output, and the client of the API uses no file that another user may have written."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, Run, ansible_playbook

SECRET = "swordfish"
STAT = """import os
found = os.stat(os.environ.get("TMPDIR", "/tmp"))
print(found.st_uid in (0, os.getuid()), oct(found.st_mode & 0o22))
"""


def play(work: Path, tasks: t.Sequence[t.Any], *arguments: str, **variables: t.Any) -> Run:
    own = {"ansible_become": False, "ansible_python_interpreter": sys.executable, **variables}
    content = {"hosts": "node", "connection": "local", "gather_facts": False, "vars": own, "tasks": tasks}
    (work / "play.yml").write_text(json.dumps([content], default=str))
    (work / "inventory").write_text("node ansible_connection=local\nserver ansible_connection=local\n")
    run = ansible_playbook(work, "-i", work / "inventory", *arguments, work / "play.yml")
    assert run.status == 0, run.output
    return run


def test_secrets_of_rke2_are_in_no_output(tmp_path: Path) -> None:
    """Neither in the arguments of modules, which events of AWX contain too, nor in a diff."""
    former = "# BEGIN gpufleet.node.rke2\nA=%s\n# END gpufleet.node.rke2\n" % SECRET
    (tmp_path / "rke2-agent").write_text(former)
    (undo,) = (
        task
        for task in yaml.safe_load((TOP / "roles" / "rke2" / "tasks" / "undo.yml").read_text())
        if "ansible.builtin.blockinfile" in task
    )
    undo["ansible.builtin.blockinfile"]["path"] = tmp_path / "rke2-agent"
    run = play(
        tmp_path,
        [{"ansible.builtin.include_role": {"name": "gpufleet.node.rke2", "tasks_from": "configure"}}, undo],
        "--check",
        "--diff",
        "-vvv",
        __rke2_planned={
            "plan": {"environment_file": tmp_path / "rke2-agent", "config": {}, "cis": False, "etcd_user": False}
        },
        __rke2_states={"results": [{"state": {"network_manager": False}}]},
        rke2_environment_options=["HTTPS_PROXY=http://user:%s@proxy" % SECRET],
        rke2_registries={"configs": {"registry.example.com": {"auth": {"password": SECRET}}}},
    )
    assert run.count("node", "changed") >= 3
    assert SECRET not in run.output


@pytest.mark.parametrize("host", ["localhost", "server"])
def test_only_its_own_user_can_plant_a_discovery_cache(tmp_path: Path, host: str) -> None:
    """The client finds resources in a file with a known name in TMPDIR."""
    connect = {"name": "gpufleet.node.gpu_cluster", "tasks_from": "connect", "public": True}
    block = [
        {"ansible.builtin.include_role": connect},
        {
            "ansible.builtin.command": {"argv": [sys.executable, "-c", STAT]},
            "environment": "{{ gpu_cluster_access.environment }}",
            "register": "found",
        },
        {"ansible.builtin.debug": {"msg": "of {{ found.stdout }}"}},
    ]
    run = play(tmp_path, [{"block": block, "delegate_to": "{{ gpu_cluster_host }}"}], gpu_cluster_host=host)
    assert "of True 0o0" in run.output
