# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The contract of roles in docs/architecture.md: entry points, how a role fails, and its private variables."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
ROLES = sorted((TOP / "roles").iterdir())
NAMES = [role.name for role in ROLES]
# gpu_node reports the problems of all roles; the others plan again when they install, in gpu_chart.
OTHERWISE = {"gpu_node", "gpu_operator", "device_plugin", "gpu_chart"}


def private(path: Path) -> t.Set[str]:
    """The roles whose private variables a file names."""
    return set(re.findall(r"\b__(%s)_\w" % "|".join(NAMES), path.read_text()))


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_private_variables_have_the_name_of_the_role_that_reads_them(role: Path) -> None:
    files = [path for path in role.glob("*/*") if path.is_file()]
    assert set().union(*map(private, files)) <= {role.name}


@pytest.mark.parametrize("pattern", ["playbooks/**/*.yml", "plugins/**/*.py"])
def test_neither_playbooks_nor_plugins_read_private_variables_of_roles(pattern: str) -> None:
    found = list(TOP.glob(pattern))
    assert found and [str(path.relative_to(TOP)) for path in found if private(path)] == []


@pytest.mark.parametrize("role", [role for role in ROLES if role.name != "gpu_chart"], ids=lambda role: role.name)
def test_the_entry_points_of_a_role_are_specified(role: Path) -> None:
    specified = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    assert {"main", "preflight", "verify", "undo"} <= set(specified)
    assert (role / "meta" / "main.yml").is_file()


@pytest.mark.parametrize("name", sorted(set(NAMES) - OTHERWISE))
def test_main_fails_with_all_problems_before_it_changes_anything(name: str) -> None:
    tasks = yaml.safe_load((TOP / "roles" / name / "tasks" / "main.yml").read_text())
    fail = next(task for task in tasks if "ansible.builtin.fail" in task)
    message = "{{ inventory_hostname }}: {{ %s_problems | join('; ') }}. Nothing was changed." % name
    assert fail["ansible.builtin.fail"] == {"msg": message}
    assert fail["when"] == "%s_problems | length > 0" % name
    before = {key for task in tasks[: tasks.index(fail)] for key in task} - {"name", "vars"}
    assert before <= {"ansible.builtin.import_tasks", "gpufleet.node.gpu_node_reject_forged_facts"}


@pytest.mark.parametrize("entry", ["preflight", "verify"])
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"gpu_node", "gpu_chart"}))
def test_preflight_and_verify_record_problems_and_do_not_fail(name: str, entry: str) -> None:
    text = (TOP / "roles" / name / "tasks" / (entry + ".yml")).read_text()
    assert "%s_problems" % name in text
    assert "ansible.builtin.fail:" not in text and "ansible.builtin.assert:" not in text


def used() -> t.Set[t.Tuple[str, str]]:
    """The entry points that roles and playbooks use, and the roles that have them."""
    files = [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/**/*.yml")]
    found = re.findall(
        r"_role:(?: *#.*)?\n +name: gpufleet\.node\.(\w+)\n +tasks_from: (\w+)", "".join(map(Path.read_text, files))
    )
    return set(found)


def test_every_entry_point_that_others_use_is_documented() -> None:
    specified = {
        (role.name, entry)
        for role in ROLES
        for entry in yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    }
    assert len(used()) > 20 and used() - specified == set()
