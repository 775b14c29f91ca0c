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
EXAMPLE = TOP / "docs" / "example_role"
ROLES = [*sorted((TOP / "roles").iterdir()), EXAMPLE]
FOLDERS = {role.name: role for role in ROLES}
NAMES = list(FOLDERS)
VARIABLES = yaml.safe_load((TOP / "roles" / "gpu_node" / "vars" / "main.yml").read_text())
_gpu_node, *ROWS = VARIABLES["__gpu_node_rows"]  # gpu_node reports the problems of the others
CHARTS = [row["role"] for row in VARIABLES["__gpu_node_chart_rows"]]
SELECTED = [EXAMPLE.name, *(row["role"] for row in ROWS)]
INTERNAL = set(NAMES) - {"gpu_node", *SELECTED, *CHARTS}


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


@pytest.mark.parametrize("role", [role for role in ROLES if role.name not in INTERNAL], ids=lambda role: role.name)
def test_the_entry_points_of_a_role_are_specified(role: Path) -> None:
    specified = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    assert {"main", "preflight", "verify", "undo"} <= set(specified)
    assert (role / "meta" / "main.yml").is_file()


@pytest.mark.parametrize("role", NAMES)
def test_task_files_say_which_results_they_share(role: str) -> None:
    """Registered results, in a line of the header: Reads: NAME, NAME (FILE); NAME (FILE, FILE). Sets: NAME."""
    texts = {path.name: path.read_text() for path in FOLDERS[role].glob("tasks/*.yml")}
    registered = {file: set(re.findall(r"^ *register: (__\w+)", text, re.M)) for file, text in texts.items()}
    results: t.Set[str] = set().union(*registered.values())
    read_from: t.Set[t.Tuple[str, str]] = set()
    set_by: t.Set[t.Tuple[str, str]] = set()
    for file, text in texts.items():
        header = " ".join(re.findall(r"^# (.*)", text.partition("\n- name:")[0], re.M))
        reads = {
            name: sources.split(", ")
            for names, sources in re.findall(r"((?:__\w+, )*__\w+) \(((?:\w+\.yml, )*\w+\.yml)\)", header)
            for name in names.split(", ")
        }
        used = results.intersection(re.findall(r"\w+", re.sub(r"(?m)^ *(#|register:).*", "", text)))
        assert used - registered[file] <= set(reads) <= used, file
        read_from |= {(source, name) for name, sources in reads.items() for source in sources}
        set_by |= {(file, name) for names in re.findall(r"Sets: ([\w, ]+)", header) for name in names.split(", ")}
    assert read_from == set_by
    assert [(file, name) for file, name in set_by if name not in registered[file]] == []


BUILTIN, OURS = "ansible.builtin.", "gpufleet.node."
# Modules that change nothing, whatever their options are. gpu_chart_compare starts temporary pods, and
# gpu_cluster_access writes files of this run, on the controller.
READING = {
    *(BUILTIN + name for name in ("debug", "set_fact", "setup", "slurp", "stat")),
    *(OURS + "gpu_chart_" + name for name in ("compare", "plan", "wait")),
    *(OURS + "gpu_cluster_" + name for name in ("access", "dra", "permissions")),
    *(OURS + "nvidia_" + name for name in ("container_toolkit_plan", "driver_facts", "driver_plan")),
    *(OURS + "nvidia_mig_" + name for name in ("differences", "requirements")),
    *(OURS + name for name in ("gpu_node_reject_forged_facts", "rke2_plan", "rke2_server", "rke2_state")),
}
FAILING = {BUILTIN + "fail", BUILTIN + "assert"}
Task = t.Dict[str, t.Any]


def read(role: str, entry: str) -> t.List[Task]:
    return t.cast("t.List[Task]", yaml.safe_load((FOLDERS[role] / "tasks" / (entry + ".yml")).read_text()))


def reached(role: str, tasks: t.Iterable[Task], inherited: t.Optional[Task] = None) -> t.Iterator[Task]:
    """The tasks that call modules, also in blocks, files and roles that these tasks include, with what they inherit."""
    for own in tasks:
        variables = {**(inherited or {}).get("vars", {}), **own.get("vars", {})}
        task = {**(inherited or {}), **own, "vars": variables}
        ((kind, options),) = [(key, task[key]) for key in task if key == "block" or "." in key]
        given = {key: task[key] for key in ("check_mode", "vars", "delegate_to", "become") if key in task}
        if kind == "block":
            yield from reached(
                role, [each for part in ("block", "rescue", "always") for each in task.get(part, ())], given
            )
        elif kind.endswith(("_tasks", "_role")):
            options = options if isinstance(options, dict) else {"file": options}
            file = options.get("file", "{{ role_path }}/tasks/%s.yml" % options.get("tasks_from", "main"))
            file = file.replace("{{ role_path }}/tasks/", "").replace(".yml", "")
            name = options.get("name", OURS + role).replace(OURS, "")
            yield from reached(name, read(name, file), {**given, **options.get("apply", {})})
        else:
            yield {**task, "module": kind}


def reads(task: Task) -> bool:
    """Whether the task changes nothing."""
    options = task[task["module"]]
    state = str(options.get("state")) if isinstance(options, dict) else ""
    state = task["vars"].get(state.strip("{ }"), state)
    return (
        task["module"] in READING
        or task.get("check_mode") is True
        or (task["module"] == BUILTIN + "command" and task.get("changed_when") is False)
        or state in ("checked", "verified")
    )


@pytest.mark.parametrize("name", SELECTED)
def test_main_fails_with_all_problems_before_it_changes_anything(name: str) -> None:
    tasks = read(name, "main")
    fail = next(task for task in tasks if "ansible.builtin.fail" in task)
    message = "{{ inventory_hostname }}: {{ %s_problems | join('; ') }}. Nothing was changed." % name
    assert fail["ansible.builtin.fail"] == {"msg": message}
    assert fail["when"] == "%s_problems | length > 0" % name
    assert [task["name"] for task in reached(name, tasks[: tasks.index(fail)]) if not reads(task)] == []


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        (name, entry)
        for name in [*SELECTED, *CHARTS]
        for entry in ("preflight", "verify", "plan")
        if entry != "plan" or (FOLDERS[name] / "tasks" / "plan.yml").is_file()
    ],
)
def test_preflight_verify_and_plan_read_only_and_do_not_fail(name: str, entry: str) -> None:
    """Except without access to the cluster: no task after connect.yml could read anything."""
    tasks = list(reached(name, read(name, entry)))
    facts = {fact for task in tasks for fact in task.get(BUILTIN + "set_fact", ())}
    assert name + "_problems" in facts or (name, entry) == ("nvidia_mig", "plan")
    assert [task["name"] for task in tasks if not reads(task) and task["module"] not in FAILING] == []
    failing = {task["name"] for task in tasks if task["module"] in FAILING}
    assert failing <= {"connect | Fail if credentials are refused"}


def test_tasks_on_the_host_with_access_to_the_api_become_root_unless_it_is_the_controller() -> None:
    """All actions that use the API run there."""
    actions = {
        OURS + path.stem
        for path in TOP.glob("plugins/action/*.py")
        if "class ActionModule(ClusterAction)" in path.read_text()
    }
    paths = [path for role in ("gpu_cluster", "gpu_chart") for path in TOP.glob("roles/%s/tasks/*.yml" % role)]
    # Blocks with the keywords include these two.
    included = {("gpu_chart", "apply"), ("gpu_chart", "helm")}
    entries = {
        ("gpu_node", "managed"),
        ("gpu_node", "report"),
        *((path.parts[-3], path.stem) for path in paths),
    } - included
    keywords = ("{{ gpu_cluster_host }}", "{{ gpu_cluster_host != 'localhost' }}")
    found = [task for role, entry in sorted(entries) for task in reached(role, read(role, entry))]
    tasks = [task for task in found if task["module"] in actions or task.get("delegate_to") == keywords[0]]
    assert len(actions) > 10 and actions <= {task["module"] for task in tasks}
    assert [task["name"] for task in tasks if (task.get("delegate_to"), task.get("become")) != keywords] == []


def used() -> t.Set[t.Tuple[str, str]]:
    """The entry points that roles and playbooks use, and the roles that have them."""
    files = [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/**/*.yml")]
    found = re.findall(
        r"_role:(?: *#.*)?\n +name: gpufleet\.node\.(\w+)\n +tasks_from: (\w+)", "".join(map(Path.read_text, files))
    )
    return set(found)


def specified() -> t.Set[t.Tuple[str, str]]:
    """The entry points that are documented, and the roles that have them."""
    return {
        (role.name, entry)
        for role in ROLES
        for entry in yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    }


def test_every_entry_point_that_others_use_is_documented() -> None:
    assert len(used()) > 15 and used() - specified() == set()


@pytest.mark.parametrize("role", ROLES[:-1], ids=NAMES[:-1])
def test_the_readme_names_the_entry_points(role: Path) -> None:
    """Others than main and plan, which is internal. After the words "entry points", no names that do not exist."""
    text = (role / "README.md").read_text()
    own = {entry for name, entry in specified() if name == role.name}
    listed = re.findall(r"ntry points? (`\w+`(?:,? (?:and )?`\w+`)*)(?! of )", text)
    assert own - {"main", "plan"} <= set(re.findall(r"`(\w+)`", text))
    assert {name for names in listed for name in re.findall(r"\w+(?=`)", names)} <= own
