# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All playbooks use the same variables for hosts, batches and environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, ansible_playbook

TARGET = "{{ gpu_node_target | default('gpu_nodes') }}"
PENDING = "{{ groups['gpu_cluster_pending'] | default('all:!all') }}"
MANAGED = {"localhost", "{{ groups['managed_gpu_nodes'] | default('all:!all') }}"}


@pytest.mark.parametrize("playbook", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.name)
def test_hosts_batches_and_environment_have_the_same_variables(playbook: Path) -> None:
    for play in yaml.safe_load(playbook.read_text()):
        assert play["hosts"] in {PENDING, *(MANAGED if playbook.name == "managed_cluster.yml" else {TARGET})}
        assert play["environment"] == "{{ gpu_node_environment | default({}) }}"
        assert "gpu_node_batches" in play.get("serial", "gpu_node_batches")


def test_the_tag_verify_selects_the_nodes_of_a_managed_cluster(tmp_path: Path) -> None:
    run = ansible_playbook(tmp_path, "--list-tasks", "--tags", "verify", PLAYBOOKS / "managed_cluster.yml")
    found = [line for line in run.output.splitlines() if "managed | Find the nodes" in line or "verify | Fail" in line]
    assert len(found) == 2
