# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubeconfig that the role rke2 copies from a server to the controller."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.gpufleet.node.tests.playbooks.conftest import Run, ansible_playbook
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.kubeconfig_support import config


def copy(tmp_path: Path, *arguments: str) -> Run:
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "rke2_download_kubeconf_path": str(tmp_path),
        "rke2_download_kubeconf_file_name": "downloaded",
        "__rke2_planned": {"plan": {"kubeconfig": str(tmp_path / "rke2.yaml"), "address": "192.0.2.1"}},
    }
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"server-1": {}, "localhost": variables}}}))
    include = {"ansible.builtin.include_role": {"name": "gpufleet.node.rke2", "tasks_from": "kubeconfig"}}
    play = {"hosts": "server-1", "gather_facts": False, "vars": variables, "tasks": [include]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    return ansible_playbook(tmp_path, "-i", tmp_path / "inventory.json", tmp_path / "play.yml", *arguments)


def test_the_controller_gets_the_address_and_the_credentials(tmp_path: Path) -> None:
    (tmp_path / "rke2.yaml").write_text(config())
    for arguments, changed in ((("--check",), True), ((), True), ((), False)):
        run = copy(tmp_path, *arguments)
        assert run.status == 0, run.output
        assert run.count("server-1", "changed") == int(changed)
    assert (
        json.loads((tmp_path / "downloaded").read_text())["clusters"][0]["cluster"]["server"]
        == "https://192.0.2.1:6443"
    )
    assert (tmp_path / "downloaded").stat().st_mode & 0o777 == 0o600


def test_a_server_does_not_choose_programs_that_the_controller_runs(tmp_path: Path) -> None:
    (tmp_path / "rke2.yaml").write_text(config(user={"exec": {"command": "/tmp/evil"}}))
    run = copy(tmp_path)
    assert run.status == 2
    assert "server-1: the kubeconfig of 192.0.2.1 is refused: its user has exec" in run.output
    assert not (tmp_path / "downloaded").exists()
