# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What action plugins show."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError

from ansible_collections.gpufleet.node.plugins.plugin_utils._common import output

ACTIONS = Path(__file__).parents[5] / "plugins" / "action"


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.show("pod \x1b[2Ja: \x9b31mready\u202e")
    assert capsys.readouterr().out == "pod [2Ja: 31mready\n"


def test_results_have_no_control_characters() -> None:
    @output.clean
    def run() -> dict[str, object]:
        return {"failed": True, "msg": "process 1 on \x1b]0;owned\x07", "waiting": ["line\n\tline\r"], "changed": False}

    assert run() == {"failed": True, "msg": "process 1 on ]0;owned", "waiting": ["line\n\tline"], "changed": False}


def test_errors_have_no_control_characters() -> None:
    @output.clean
    def run() -> dict[str, object]:
        raise AnsibleError("unknown option \x1b[31m\u061c\u2028x")

    with pytest.raises(AnsibleError, match=r"unknown option \[31mx$"):
        run()


@pytest.mark.parametrize("path", sorted(ACTIONS.glob("*.py")), ids=lambda path: path.stem)
def test_all_actions_end_so(path: Path) -> None:
    text = path.read_text()
    assert "Display().display" not in text
    if "(Action)" in text or "(ClusterAction)" in text:  # whose base does it
        assert "def run(" not in text
    else:
        assert "    @clean\n    def run(" in text
