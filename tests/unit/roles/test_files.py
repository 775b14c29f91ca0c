# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of tasks the roles execute, and which files of the controller they copy to nodes."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
NAMED = re.compile(r"(?:import|include)_tasks:(?:\s+file:)?\s+(\S.*)")


def test_roles_execute_no_tasks_of_the_current_directory() -> None:
    """Ansible searches tasks/ there first for a relative path in a file that is imported."""
    named = {
        (path, match.group(1).partition(" #")[0].rstrip())
        for path in ROLES.glob("*/tasks/*.yml")
        for match in NAMED.finditer(path.read_text())
    }
    others = {name for path, name in named if not re.fullmatch(r'"{{ role_path }}/tasks/\w+\.yml"', name)}
    assert len(named) > 50
    assert others == {'"{{ gpu_node_drain_tasks }}"', '"{{ gpu_node_return_tasks }}"'}


ACTIONS = {path.stem for path in (ROLES.parent / "plugins" / "action").glob("*.py")}  # they run on the controller
COPYING = ("ansible.builtin.copy", "ansible.builtin.template", "ansible.builtin.unarchive", "ansible.builtin.script")


def tasks(role: Path) -> t.Iterator[t.Dict[str, t.Any]]:
    """All tasks and blocks of a role."""
    left = [task for path in role.glob("tasks/*.yml") for task in yaml.safe_load(path.read_text())]
    while left:
        task = left.pop()
        yield task
        left.extend(child for key in ("block", "rescue", "always") for child in task.get(key, []))


def test_no_node_names_a_file_of_the_controller_that_it_gets() -> None:
    sources = 0
    for role in ROLES.iterdir():
        every = list(tasks(role))
        own = {
            task["register"]
            for task in every
            if {key.rpartition(".")[2] for key in task} & ACTIONS and "register" in task
        }
        by_nodes = {task["register"] for task in every if "register" in task} - own
        for task in every:
            for arguments in (task[name] for name in COPYING if name in task):
                if "src" in arguments and not arguments.get("remote_src"):
                    sources += 1
                    names = re.findall(r"\w+", "%s %s" % (arguments["src"], task.get("loop", "")))
                    assert by_nodes.isdisjoint(names), task["name"]
    assert sources > 8
