# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import former


def test_the_hosts_of_an_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[gpu_nodes]\na\nb\n")
    found, known = former.starts(tmp_path, ["c"], DataLoader(), None)
    assert known == ["a", "b"]
    assert found["c"].notes == ["the former inventory does not have the host: it starts from empty GPUs"]


def test_a_truncated_report_is_no_inventory(tmp_path: Path) -> None:
    """Ansible would read it as one in INI format."""
    path = tmp_path / "report.json"
    path.write_text('{\n"hosts"\n')
    with pytest.raises(
        Refusal, match="rehearse_from: %s cannot be read: it is neither JSON .* nor an inventory" % path
    ):
        former.starts(path, ["a"], DataLoader(), None)


@pytest.mark.parametrize("name", ["group_vars", "host_vars"])
def test_encrypted_variables_without_the_password(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts").write_text("a\n")
    (tmp_path / name).mkdir()
    variables = tmp_path / name / ("all" if name == "group_vars" else "a")
    variables.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    with pytest.raises(Refusal, match="rehearse_from: %s cannot be read: .*vault.*rehearse_from=empty" % tmp_path):
        former.starts(tmp_path, ["a"], DataLoader(), None)
