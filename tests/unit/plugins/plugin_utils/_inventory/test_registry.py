# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of roles is complete, and gpu_node_roles and tags select from it as Ansible does."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import registry, variables
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory.registry import Row, Tags

ROLES = Path(__file__).resolve().parents[5] / "roles"
VARIABLES = yaml.safe_load((ROLES / "gpu_node" / "vars" / "main.yml").read_text())
CHARTS = VARIABLES["__gpu_node_chart_rows"]
REGISTRY = [*VARIABLES["__gpu_node_rows"], *CHARTS]
INTERNAL = {"gpu_chart"}  # only other roles include it
ROWS = [Row("gpu_node", "name", True), Row("nvidia_driver", "driver", True), Row("nvidia_mig", "mig", False)]
NAMES = [row.role for row in ROWS]


def test_every_role_is_in_the_registry_with_its_entry_points() -> None:
    entries = {path.name for path in ROLES.iterdir()} - INTERNAL
    assert {row["role"] for row in REGISTRY} == entries
    for row in REGISTRY:
        assert set(row) - {"plan", "joins"} == {"role", "tag", "scope", "enabled"}
        assert row["scope"] in ("node", "cluster")
        for entry in ("preflight", "main", "verify", "undo"):
            assert (ROLES / row["role"] / "tasks" / (entry + ".yml")).is_file(), (row["role"], entry)
        for key, fact in (("plan", "_drain_reasons:"), ("joins", "_present:")):
            if key in row:
                assert row["role"] + fact in (ROLES / row["role"] / "tasks" / "plan.yml").read_text()


def test_variables_that_gpu_node_sets_for_playbooks_are_known() -> None:
    """The preflight warns of unknown ones."""
    public = {name for name in yaml.safe_load((ROLES / "gpu_node/vars/main.yml").read_text()) if name[0] != "_"}
    assert public and public <= variables.known_variables()


def test_variables_of_plays_are_known() -> None:
    plays = [play for path in (ROLES.parent / "playbooks").glob("*.yml") for play in yaml.safe_load(path.read_text())]
    names = {name for play in plays for name in play.get("vars", ()) if not name.startswith(("_", "ansible_"))}
    assert names and names <= variables.known_variables()


KEYS = {"role": "`%(role)s`", "link": "[%(role)s]", "tag": "`%(tag)s`", "prefix": "`%(role)s_`"}


def test_the_documents_name_every_role_tag_and_prefix() -> None:
    docs = ROLES.parent / "docs"
    missing = []
    for path, key, line in (
        (docs / "README.md", "role", "| role `"),
        (docs / "README.md", "link", "| READMEs of the roles"),
        (docs / "playbooks.md", "tag", "| tags `"),
        (ROLES / "gpu_node" / "README.md", "tag", "Each role has a tag"),
        (ROLES / "gpu_node" / "README.md", "prefix", "The variables of the other roles"),
    ):
        text = "".join(part for part in re.split(r"\n\n|\n(?=\|)", path.read_text()) if part.startswith(line))
        names = [KEYS[key] % row for row in REGISTRY]
        missing += ["%s: %s" % (path, name) for name in names if name not in text]
    assert missing == []


def test_the_description_of_gpu_node_roles_names_the_roles_that_all_may_exclude() -> None:
    specification = yaml.safe_load((ROLES / "gpu_node" / "meta" / "argument_specs.yml").read_text())
    described = " ".join(specification["argument_specs"]["main"]["options"]["gpu_node_roles"]["description"])
    rows = (ROLES / "gpu_node" / "README.md").read_text().splitlines()
    (row,) = [each for each in rows if each.startswith("| `gpu_node_roles` |")]
    defaults = (ROLES / "gpu_node" / "defaults" / "main.yml").read_text()
    (comment,) = re.findall(r"((?:^#.*\n)+)gpu_node_roles:", defaults, re.M)
    roles = [each["role"] for each in REGISTRY if each["enabled"] is not True]
    assert [role for role in roles if "C(%s)" % role not in described] == []
    assert [role for role in roles if "`%s`" % role not in row] == []
    assert [role for role in roles if not re.search(r"\b%s\b" % role, comment)] == []


def test_only_the_registry_says_which_charts_a_host_has() -> None:
    """Roles and playbooks select them with gpu_node_charts and gpu_node_cluster_roles."""
    found = {
        (str(path.relative_to(ROLES.parent)), name)
        for path in [*ROLES.glob("*/[tv]*/*.yml"), *ROLES.parent.glob("playbooks/**/*.yml")]
        for name in re.findall(r"(\w+)_version is (?:not )?defined", path.read_text())
    }
    assert found == {("roles/gpu_node/vars/main.yml", row["role"]) for row in CHARTS}


@pytest.mark.parametrize(("scope", "file"), [("node", "main.yml"), ("cluster", "cluster.yml")])
def test_gpu_node_runs_the_roles_of_the_registry_in_its_order(scope: str, file: str) -> None:
    """Static imports: with dynamic ones, --start-at-task, --list-tasks and --list-tags would not see the roles.

    Dynamic ones for the roles of clusters, so that other nodes skip one task of each.
    """
    expected = []
    for row in REGISTRY:
        if row["role"] != "gpu_node" and row["scope"] == scope:
            options = {"name": "gpufleet.node." + row["role"], "rolespec_validate": False}
            if scope == "cluster" or "joins" in row:
                options["apply"] = {"tags": [row["tag"]]}
            expected.append((options, "'%s' in __gpu_node_enabled" % row["role"], [row["tag"]]))
    assert [(options, task["when"], task["tags"]) for options, task in roles_in(file, {})] == expected


def roles_in(file: str, inherited: t.Mapping[str, t.Any]) -> t.Iterator[t.Tuple[t.Any, t.Dict[str, t.Any]]]:
    """The main entry points of roles that the tasks of a file run, with the keywords that they inherit."""
    tasks = [{**inherited, **task} for task in yaml.safe_load((ROLES / "gpu_node" / "tasks" / file).read_text())]
    for task in tasks:
        keywords = {key: task[key] for key in ("when", "tags") if key in task}
        tasks.extend({**keywords, **inner} for inner in task.get("block", ()))
        included = task.get("ansible.builtin.include_role", {})
        if "ansible.builtin.import_role" in task:
            yield task["ansible.builtin.import_role"], task
        elif "apply" in included and "tasks_from" not in included:
            yield included, task
        elif "ansible.builtin.import_tasks" in task:
            yield from roles_in(task["ansible.builtin.import_tasks"].rpartition("/")[2], keywords)


def test_rows_read_the_results_of_templates() -> None:
    """Before ansible-core 2.19, a template returns text."""
    given = [{"role": "a", "tag": "x", "enabled": "False"}, {"role": "b", "tag": "y", "enabled": "True", "plan": True}]
    assert registry.parse_rows(given) == [Row("a", "x", False), Row("b", "y", True, plan=True)]


@pytest.mark.parametrize(
    ("requested", "roles"),
    [
        (["all"], ["gpu_node", "nvidia_driver"]),
        (["nvidia_mig", "gpu_node"], ["gpu_node", "nvidia_mig"]),
        (["all", "nvidia_mig"], NAMES),
        ([], []),
        (None, []),
        ("all", []),
        ([["all"]], []),
    ],
)
def test_enabled_roles(requested: object, roles: t.Sequence[str]) -> None:
    assert registry.enabled_roles(ROWS, requested) == roles


@pytest.mark.parametrize(("scope", "roles"), [("all", ["a", "b"]), ("node", ["a"]), ("cluster", ["b"])])
def test_roles_of_a_scope(scope: str, roles: t.Sequence[str]) -> None:
    rows = registry.parse_rows([{"role": "a", "tag": "x"}, {"role": "b", "tag": "y", "scope": "cluster"}])
    assert registry.roles_of_scope(rows, ["a", "b"], scope) == roles


def test_names_that_are_not_roles() -> None:
    (problem,) = registry.unknown_role_problems(ROWS, ["all", "nvidia_mgi"])
    assert problem == (
        "gpu_node_roles names 'nvidia_mgi', which is not a role of this collection: use all, gpu_node, nvidia_driver, "
        "nvidia_mig"
    )


@pytest.mark.parametrize(
    ("tags", "roles"),
    [
        (Tags(), NAMES),
        (Tags(["tagged"]), NAMES),
        (Tags(["mig"]), ["nvidia_mig"]),
        (Tags(["mig", "name"]), ["gpu_node", "nvidia_mig"]),
        (Tags(skip=["mig"]), ["gpu_node", "nvidia_driver"]),
        (Tags(["mig"], ["mig"]), []),
        (Tags(skip=["all"]), []),
        (Tags(["always"], inherited=["always"]), []),  # it checks variables only
        (Tags(["verify"]), []),
        (Tags(["verify"], inherited=["verify", "always"]), NAMES),
        (Tags(["gpus"], inherited=["gpus"]), NAMES),  # import_playbook under a tag of the user's own
        (Tags(skip=["gpus"], inherited=["gpus"]), []),
        (Tags(["mig"], inherited=["gpus"]), ["nvidia_mig"]),
    ],
)
def test_tags_select_as_ansible_does(tags: Tags, roles: t.Sequence[str]) -> None:
    assert registry.selected_roles(ROWS, NAMES, tags) == roles


MIG_ONLY = {"nvidia_mig": {"unit": "gpufleet-mig-restore.service"}}


@pytest.mark.parametrize(
    ("record", "requested", "tags", "given", "expected"),
    [
        (MIG_ONLY, ["all"], Tags(), ["nvidia_mig"], ["nvidia_driver"]),
        (MIG_ONLY, ["all", "nvidia_driver"], Tags(), [], []),
        (MIG_ONLY, ["nvidia_mig"], Tags(), [], []),
        (MIG_ONLY, ["all"], Tags(["driver"]), [], []),
        (MIG_ONLY, ["all"], Tags(["mig"]), [], []),
        (MIG_ONLY, ["all"], Tags(), ["nvidia_driver"], []),
        # site.yml has run, or nothing has.
        ({**MIG_ONLY, "nvidia_driver": {"installed": []}}, ["all"], Tags(), [], []),
        ({}, ["all"], Tags(), [], []),
        ("error loading fact", ["all"], Tags(), [], []),
    ],
)
def test_verify_skips_roles_only_where_nothing_requests_them(
    record: object, requested: t.List[str], tags: Tags, given: t.List[str], expected: t.List[str]
) -> None:
    assert registry.unrequested_roles(ROWS, requested, tags, record, given) == expected


def test_a_selection_without_roles_that_nothing_requests() -> None:
    found = registry.select_roles(ROWS, ["all"], Tags(), MIG_ONLY, [])
    assert (found.unrequested, found.enabled, found.selected) == (["nvidia_driver"], ["gpu_node"], ["gpu_node"])
    assert registry.select_roles(ROWS, ["all"], Tags(), MIG_ONLY, [], all_roles=True).selected == NAMES
    assert registry.select_roles(ROWS, ["all"], Tags(), {}, [], scope="cluster").selected == []


@pytest.mark.parametrize(
    ("tags", "updates", "interrupts"),
    [
        (Tags(), ["nvidia_driver", "nvidia_container_toolkit", "rke2"], True),
        (Tags(["driver"]), ["nvidia_driver"], True),
        (Tags(["mig"]), [], True),
        (Tags(["name", "cluster", "operator"]), [], False),
    ],
)
def test_which_selected_roles_may_interrupt_the_work_of_a_node(
    tags: Tags, updates: t.List[str], interrupts: bool
) -> None:
    rows = registry.parse_rows(REGISTRY)
    found = registry.select_roles(rows, [row.role for row in rows], tags, {}, [])
    assert (found.updates, found.interrupts) == (updates, interrupts)


def test_variables_of_selected_roles_are_validated_and_those_of_all_with_the_tag_always() -> None:
    assert registry.select_roles(ROWS, NAMES, Tags(["mig"]), {}, []).validated == ["nvidia_mig"]
    found = registry.select_roles(ROWS, NAMES, Tags(["always"], inherited=["always"]), {}, [])
    assert (found.validated, found.selected) == (NAMES, [])


@pytest.mark.parametrize(
    ("requested", "tags", "compares"),
    [
        (["all"], Tags(), True),
        (["nvidia_driver"], Tags(["driver"]), True),
        (["nvidia_mig"], Tags(), False),
        (["all"], Tags(["mig"]), False),  # a layout can be changed on the GPUs that are left
    ],
)
def test_a_missing_gpu_blocks_only_the_provisioning(requested: object, tags: Tags, compares: bool) -> None:
    assert registry.select_roles(ROWS, requested, tags, {}, []).compares_boards is compares
