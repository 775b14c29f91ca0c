# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What prevents the role nvidia_mig from managing MIG on a node."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import processes, requirements
from ansible_collections.gpufleet.node.plugins.modules import nvidia_mig_requirements
from ansible_collections.gpufleet.node.tests.unit.plugins.modules import module_support


@pytest.fixture(name="node")
def fixture_node(tmp_path, monkeypatch):
    """Return the problems of a node with these enabled units. The machine's own processes may be a MIG manager."""
    monkeypatch.setattr(processes, "PROCESSES", str(tmp_path / "proc"))

    def node(*enabled, **options):
        from ansible.module_utils.basic import AnsibleModule

        def systemctl(_module, arguments, **_options):
            assert arguments[1:3] == ["is-enabled", "--quiet"]
            return (0 if arguments[3] in enabled else 1), "", ""

        monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: "/bin/" + name)
        monkeypatch.setattr(AnsibleModule, "run_command", systemctl)
        return module_support.run(nvidia_mig_requirements.main, **options)["problems"]

    return node


def test_reports_another_owner_of_mig_and_a_missing_group(node):
    assert node(access_group="root") == []
    owner, group = node(requirements.MANAGER, access_group="nosuch")
    assert owner.startswith("nvidia-mig-manager.service is enabled") and "systemctl disable --now" in owner
    assert group.startswith("it has no group nosuch, which nvidia_mig_access_group names. Create it with groupadd")


def test_reports_missing_root_privileges(node, tmp_path, monkeypatch):
    record = str(tmp_path / "missing" / "record.json")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert node(record=record) == []  # it can be written
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert node(record=record) == ["Ansible does not run as root. Run as root (become: true)"]
    assert node() == []


@pytest.mark.parametrize(
    ("name", "user", "capabilities", "is_manager"),
    [
        ("nvidia-mig-mana", 0, "000001ffffffffff", True),
        ("nvidia-mig-mana", 1000, "0000000000000000", False),  # a local user
        ("nvidia-mig-mana", 0, "00000000a80425fb", False),  # root of a container without privileges
        ("nvidia-mig-mana", 100000, "000001ffffffffff", False),  # root of a user namespace
        ("grep", 0, "000001ffffffffff", False),
    ],
)
def test_reports_a_mig_manager_of_the_gpu_operator(node, tmp_path, name, user, capabilities, is_manager):
    for number, process in enumerate(["bash", name], 1):
        (tmp_path / "proc" / str(number)).mkdir(parents=True)
        text = "Name:\t%s\nUmask:\t0022\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\n"
        (tmp_path / "proc" / str(number) / "status").write_text(text % (process, *[user] * 4, capabilities))
    (tmp_path / "proc" / "3").mkdir()
    assert node(owner="operator") == []
    problems = node()
    assert len(problems) == is_manager
    assert all("GPU operator's MIG manager runs on it" in each and "--tags operator" in each for each in problems)


def test_a_node_without_systemd(tmp_path, monkeypatch):
    from ansible.module_utils.basic import AnsibleModule

    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: None)
    monkeypatch.setattr(processes, "PROCESSES", str(tmp_path))
    assert module_support.run(nvidia_mig_requirements.main)["problems"] == []
