# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/example_role, which contributors copy, has the behaviour that the contract asks for."""

from __future__ import annotations

import json

from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, Fleet, Run

EXAMPLE = TOP / "docs" / "example_role"
PROBLEMS = "example_role_problems | default([])"


def test_the_example_of_a_role(fleet: Fleet) -> None:
    file = fleet.work / "file"

    def run(entry: str, text: str = "hello", fails: bool = False) -> Run:
        role = {"name": str(EXAMPLE), "tasks_from": entry}
        tasks = [{"ansible.builtin.include_role": role}, {"ansible.builtin.debug": {"msg": "{{ %s }}" % PROBLEMS}}]
        play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
        (fleet.work / "play.yml").write_text(json.dumps(play))
        variables = {"example_role_path": str(file), "example_role_text": text}
        return fleet.play(fleet.work / "play.yml", fails=fails, **variables)

    fleet.host("one")
    assert "one: example_role_text is empty: set it. Nothing was changed." in run("main", text="", fails=True).output
    assert "differs from example_role_text" in run("verify").output
    for entry, changed in (("main", 1), ("main", 0), ("verify", 0), ("undo", 1), ("undo", 0)):
        found = run(entry)
        assert found.count("one", "changed") == changed and "differs" not in found.output, entry
    assert not file.exists()
