# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All playbooks use the same variables for hosts, batches and environment, and variables may be vaulted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, TOP, ansible_playbook

TARGET = "{{ gpu_node_target | default('gpu_nodes') }}"
REACHABLE = """{{ [gpu_node_target | default('gpu_nodes')]
   + (['!gpu_node_left_out'] if 'gpu_node_left_out' in groups else []) }}"""
TO_DRAIN = "{{ groups['gpu_cluster_to_drain'] | default('all:!all') }}"
CONTROLLER = "localhost"
MANAGED = {"{{ groups['managed_gpu_nodes'] | default('all:!all') }}"}
IMPORT = "ansible.builtin.import_playbook"


def plays(playbook: Path) -> t.Iterator[t.Dict[str, t.Any]]:
    """The plays of a playbook and of those that it imports, with its values of their variables."""
    for play in yaml.safe_load(playbook.read_text()):
        values = play.get("vars", {})
        for each in plays(playbook.parent / play[IMPORT]) if IMPORT in play else [play]:
            names = {key: re.match(r"{{ (__playbook_\w+) ", str(each.get(key))) for key in ("hosts", "serial")}
            yield {**each, **{key: values[found[1]] for key, found in names.items() if found and values}}


@pytest.mark.parametrize("playbook", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.name)
def test_hosts_batches_and_environment_have_the_same_variables(playbook: Path) -> None:
    for play in plays(playbook):
        assert play["hosts"] in {
            CONTROLLER,
            TO_DRAIN,
            *(MANAGED if playbook.name == "managed_cluster.yml" else {TARGET, REACHABLE}),
        }
        if playbook.name == "rehearse.yml":  # runs nothing on hosts
            assert play["hosts"] == CONTROLLER or "environment" not in play
        else:
            assert play["environment"] == "{{ gpu_node_environment | default({}) }}"
        assert "gpu_node_batches" in play.get("serial", "gpu_node_batches")


def test_the_tag_verify_selects_the_nodes_of_a_managed_cluster(tmp_path: Path) -> None:
    run = ansible_playbook(tmp_path, "--list-tasks", "--tags", "verify", PLAYBOOKS / "managed_cluster.yml")
    tasks = ("managed | Find the nodes", "preflight | Fail", "batch | Show", "verify | Fail")
    assert [task for task in tasks if task not in run.output] == []


def test_vaulted_values_are_written_as_text(tmp_path: Path) -> None:
    """Not as ciphertext, which RKE2 would take for the password."""
    (tmp_path / "key").write_text("key")
    tool = Path(sys.executable).parent / "ansible-vault"
    encrypt = [tool, "encrypt_string", "--vault-password-file=key", "--name=password", "hunter2"]
    vaulted = subprocess.run(encrypt, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    (tmp_path / "vaulted.yml").write_text(vaulted)
    login = {"auth": {"username": "gpu", "password": "{{ password }}"}}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            "rke2_registries": {"configs": {"registry.example.com": login}},
            "__rke2_planned": {"plan": {"config": {"tls-san": ["{{ password }}"]}}},
            "__rke2_options": {},
            "__rke2_own": {"token": "{{ password }}"},
        },
        "vars_files": ["vaulted.yml", str(TOP / "roles" / "rke2" / "vars" / "main.yml")],
        "tasks": [{"ansible.builtin.debug": {"msg": "{{ [__rke2_registries, __rke2_settings, __rke2_secrets] }}"}}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    output = ansible_playbook(tmp_path, "--vault-password-file=key", tmp_path / "play.yml").output
    assert output.count("hunter2") == 3 and "VAULT" not in output, output
