# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules print."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.tests.unit.plugins.modules import module_support

MODULES = Path(__file__).parents[6] / "plugins" / "modules"
HOSTILE = "\x1b]0;owned\x07tra\x9bin\x7f\r\u202e"


@pytest.mark.parametrize("end", ["exit_json", "fail_json"])
def test_results_have_no_control_characters(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warnings.append(text))

    def main() -> None:
        module = Module({})
        module.warn(HOSTILE)
        getattr(module, end)(msg=HOSTILE, processes=[{"pid": 1, HOSTILE: HOSTILE + "\t1\n"}])

    result = module_support.run(main)
    assert result["msg"] == "]0;ownedtrain"
    assert result["processes"] == [{"pid": 1, "]0;ownedtrain": "]0;ownedtrain\t1\n"}]
    assert warnings == ["]0;ownedtrain"]


@pytest.mark.parametrize("path", sorted(MODULES.glob("*.py")), ids=lambda path: path.stem)
def test_all_modules_end_so(path: Path) -> None:
    assert "AnsibleModule(" not in path.read_text()
