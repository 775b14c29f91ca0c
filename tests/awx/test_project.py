# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The example project and the execution environment of awx/."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import problems
from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, ansible_playbook

PROJECT = TOP / "awx" / "project"
ENVIRONMENT = TOP / "awx" / "execution-environment"
BIN = Path(sys.executable).parent


def read(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text())


# --- The project ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("playbook", sorted(PROJECT.glob("*.yml")), ids=lambda path: path.name)
def test_playbooks_import_those_of_the_collection(playbook: Path) -> None:
    (play,) = read(playbook)
    assert play["ansible.builtin.import_playbook"] == "gpufleet.node." + playbook.stem
    inventory = "managed" if playbook.stem == "managed_cluster" else "nodes"
    arguments = ("-i", PROJECT / "inventories" / inventory / "hosts", playbook, "--syntax-check")
    run = ansible_playbook(PROJECT, *arguments, ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"))
    assert run.status == 0, run.output


def test_a_project_has_all_playbooks_of_the_collection() -> None:
    assert {path.name for path in PROJECT.glob("*.yml")} == {path.name for path in TOP.glob("playbooks/*.yml")}


@pytest.mark.parametrize("name, host", [("nodes", "gpu-a100-01"), ("nodes", "gpu-a100-03"), ("managed", "localhost")])
def test_each_host_selects_a_layout_that_fits_its_boards(name: str, host: str) -> None:
    command = [BIN / "ansible-inventory", "-i", PROJECT / "inventories" / name / "hosts"]
    shown = subprocess.run([*command, "--host", host], cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    values = json.loads(shown)
    assert values["nvidia_mig_layout"] in values["nvidia_mig_layouts"]
    for layout in values["nvidia_mig_layouts"].values():
        assert problems.of_layout(layout, values.get("gpu_node_boards", ["A100-40GB"])) == []


def test_the_check_of_layouts_in_the_guide_accepts_named_layouts(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(# layouts\.yml:.*?)```", (TOP / "docs" / "simulator.md").read_text(), re.DOTALL)
    playbook = tmp_path / "layouts.yml"
    playbook.write_text(block)
    run = ansible_playbook(tmp_path, playbook, "-i", PROJECT / "inventories" / "nodes")
    assert run.status == 0, run.output
    assert run.count("gpu-a100-03", "ok") == 1


# --- The execution environment ----------------------------------------------------------------------------------------


def test_ansible_builder_accepts_the_definition(tmp_path: Path) -> None:
    definition = ENVIRONMENT / "execution-environment.yml"
    command = [BIN / "ansible-builder", "create", "--file", definition, "--context", tmp_path]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    containerfile = (tmp_path / "Containerfile").read_text()
    for installed in ("ansible-galaxy collection install", "bindep.txt", "/usr/local/bin/helm", "node/simulator"):
        assert installed in containerfile


def test_the_environment_has_the_versions_that_are_tested() -> None:
    pinned = (TOP / "requirements" / "core-2.18.txt").read_text().splitlines()
    core = read(ENVIRONMENT / "execution-environment.yml")["dependencies"]["ansible_core"]["package_pip"]
    assert core in pinned
    client = read(TOP / "roles" / "gpu_cluster" / "defaults" / "main.yml")["gpu_cluster_client_packages"]
    required = {line for line in (ENVIRONMENT / "requirements.txt").read_text().splitlines() if line[:1].isalpha()}
    assert required and required <= {*client, *pinned}


def test_jobs_have_the_collection_of_the_environment() -> None:
    assert read(ENVIRONMENT / "requirements.yml") == read(PROJECT / "collections" / "requirements.yml")
