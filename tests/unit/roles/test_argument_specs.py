# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes in roles that Ansible does not report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
ROLES = [*sorted((TOP / "roles").iterdir()), TOP / "docs" / "example_role"]


def read(path):
    return path.exists() and yaml.safe_load(path.read_text()) or {}


def options(role):
    """The options of every entry point."""
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_match_the_specification(role):
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert read(role / "defaults" / "main.yml") == documented


def rows(role):
    """The variables in the README's tables, and the cells with their defaults."""
    text = (role / "README.md").read_text()
    found = re.findall(r"(?m)^\| (`%s_\w+`(?:, `\w+`)*) \| ?([^|]*?) ?\|" % role.name, text)
    return {name: cell for names, cell in found for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_readme_has_a_table_of_every_input_and_its_default(role):
    """Words may replace a list and an empty text."""
    shown, known = rows(role), options(role)
    assert sorted(shown) == sorted(known)
    for name, option in known.items():
        literal = re.fullmatch("`(.*)`", shown[name])
        if literal:
            assert (name, yaml.safe_load(literal[1])) == (name, option["default"])
        else:
            assert option.get("default", "") == "" or isinstance(option["default"], list), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_input_starts_with_the_roles_name(role):
    assert [name for name in options(role) if not name.startswith(role.name + "_")] == []


def tasks(role):
    """All tasks and blocks of a role."""
    left = [task for path in role.glob("*/*.yml") if path.parent.name in ("tasks", "handlers") for task in read(path)]
    while left:
        task = left.pop()
        yield task
        left.extend(child for key in ("block", "rescue", "always") for child in task.get(key, []))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_registered_result_hides_a_tasks_own_variable(role):
    every = list(tasks(role))
    registered = {task["register"] for task in every if "register" in task}
    assert registered.intersection(name for task in every for name in task.get("vars", {})) == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_facts_that_roles_set_are_not_reported_as_unknown_variables(role):
    from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables

    every = list(tasks(role))
    names = {name for task in every for name in task.get("ansible.builtin.set_fact", {}) if name != "cacheable"}
    names.update(task["register"] for task in every if "register" in task)
    public = {name for name in names if not name.startswith("__") and not name.endswith(variables.FACTS)}
    assert public - variables.known_variables() == set()


def test_the_role_and_the_module_have_the_same_defaults():
    """Inputs that are passed to the module unchanged."""
    from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import idle
    from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.nvidia_mig import ARGUMENTS

    module = ARGUMENTS["argument_spec"]
    role = options(next(role for role in ROLES if role.name == "nvidia_mig"))
    for name in ("reset", "disturb", "lock_path", "lock_wait", "backend"):
        assert role["nvidia_mig_" + name]["default"] == module[name]["default"], name
    assert role["nvidia_mig_clients"]["default"] == idle.ARGUMENTS["argument_spec"]["units"]["default"]


def test_the_readme_of_the_driver_has_the_default_source_and_branch_of_every_system():
    from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import tables

    text = next(role for role in ROLES if role.name == "nvidia_driver").joinpath("README.md").read_text()
    for architecture, part in zip(("x86_64", "aarch64"), text.split("On aarch64:"), strict=True):
        for name in tables.system_names():
            table = tables.load_table(name)
            sources = {key: rows for key, rows in table["sources"].items() if architecture in rows["architectures"]}
            source = table["default_source"] if table["default_source"] in sources else "cuda_repository"
            expected = "none"
            if source in sources:
                title = "CUDA repository" if source == "cuda_repository" else "Ubuntu"
                branch = {**sources[source], **sources[source].get(architecture, {})}["default_branch"]
                expected = "%s, %s" % (title, branch)
            assert "| %s | %s |" % (table["title"], expected) in part
