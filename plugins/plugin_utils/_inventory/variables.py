# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Validate a host's variables against the roles' argument specifications and additional rules."""

from __future__ import annotations

import functools
import os
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.text import did_you_mean, nearest
from .._common.refusal import Refusal
from .._common.truth import is_true
from .._layout import named
from .._layout import problems as layout_problems
from . import values as inventory_values

_ROLES = Path(__file__).resolve().parents[3] / "roles"
_EQUIVALENTS = Path(__file__).with_name("equivalents.yml")
# Variables that only playbooks read, or that roles set.
_OF_PLAYBOOKS = (
    "gpu_chart_plan",
    "gpu_cluster_access",
    "gpu_cluster_drained",
    "gpu_cluster_mig_changed",
    "gpu_node_batches",
    "gpu_node_charts",
    "gpu_node_cluster_roles",
    "gpu_node_max_fail_percentage",
    "gpu_node_environment",
    "gpu_node_gathered",
    "gpu_node_target",
    "gpu_node_undo_confirmed",
    "nvidia_driver_reboot_required",
    "nvidia_mig_deferred",
    "nvidia_mig_plan",
    "rehearse_activation",
    "rehearse_busy",
    "rehearse_from",
    "rehearse_pods",
    "report_path",
    "report_previous",
)
# Ends of names of facts that every role may set, for gpu_node.
FACTS = ("_problems", "_drain_reasons", "_present")
# Variables in keywords of plays.
_KEYWORDS = ("gpu_node_batches", "gpu_node_target")
# Roles of other collections use the prefixes of these roles. Their variables are only ours where the role is selected.
_SHARED_PREFIXES = ("rke2",)
_LAYOUT = "nvidia_mig_layout"
_LAYOUTS = "nvidia_mig_layouts"
_TASKS = ("gpu_node_drain_tasks", "gpu_node_return_tasks")
# With one of these, a node must advertise all resources of its layout.
_OF_CLUSTER: t.Mapping[str, t.Callable[[object], bool]] = {
    "gpu_cluster_drain": is_true,
    "gpu_operator_version": bool,
    "device_plugin_version": bool,
}
# Similarity at which a name counts as misspelled, without the role prefix.
_SIMILARITY = 0.8
_FORGED = (
    "the node returns facts with the names of variables, which they would replace: %s. Somebody may control the node, "
    "unless tasks of yours set them with set_fact and cacheable"
)
_MAX_FACTS = 5  # facts in a message
_CLASS = re.compile(r"<class '(\w+)'>")

Values = t.Mapping[str, t.Any]


class Findings(t.NamedTuple):
    """Sentences without a full stop."""

    problems: list[str]
    notices: list[str]
    invalid: list[str]  # the roles with variables of wrong types or values
    layout: list[str]  # the problems of nvidia_mig_layout


NOTHING = Findings([], [], [], [])


def known_variables() -> set[str]:
    """The names of all variables that the collection reads."""
    return {name for options in _described().values() for name in options} | set(_OF_PLAYBOOKS)


def check_variables(
    names: t.Iterable[str],
    values: Values,
    unreadable: t.Mapping[str, str],
    roles: t.Sequence[str],
    compares_layout: bool = True,
) -> Findings:
    """All problems of a host's variables, with one message for each cause.

    ``names`` are the names of all variables of the host, ``values`` the collection's variables that can be read, and
    ``unreadable`` the errors of the others. Required variables are checked only for ``roles``. The layout is compared
    with the boards if ``compares_layout``.
    """
    others = tuple(role + "_" for role in _SHARED_PREFIXES if role not in roles)
    names = [name for name in names if not name.startswith(others)]
    values = {name: value for name, value in values.items() if not name.startswith(others)}
    unreadable = {name: why for name, why in unreadable.items() if not name.startswith(others)}
    misspelled, notices = _unknown(names)
    broken = ["%s cannot be read: %s" % pair for pair in sorted(unreadable.items())]
    unchecked = {name: value for name, value in values.items() if name != _LAYOUT or "nvidia_mig" not in roles}
    invalid_values = [*inventory_values.value_problems(unchecked, _types()), *_task_file_problems(values)]
    if isinstance(values.get(_LAYOUTS), t.Mapping):  # the one that nvidia_mig_layout names is checked as that
        named_layouts = {name: layout for name, layout in values[_LAYOUTS].items() if name != values.get(_LAYOUT)}
        invalid_values += layout_problems.of_named(named_layouts)
    layout: list[str] = []
    malformed: list[str] = []
    if len(unchecked) < len(values):
        usable = not any(problem.startswith("gpu_node_boards") for problem in (*broken, *invalid_values))
        boards = values.get("gpu_node_boards") if usable and compares_layout else None
        layouts = values.get(_LAYOUTS)
        malformed = layout_problems.of_variable(values[_LAYOUT], layouts)
        layout = malformed or layout_problems.of_layout(named.resolve(values[_LAYOUT], layouts), boards)
    # Ansible would report a wrong type again, and a wrong entry of the layout without its number.
    found = {name for name in unchecked if any(each.startswith((name + " ", name + ",")) for each in invalid_values)}
    reported = {*unreadable, *found, *(values.keys() - unchecked)}
    errors = {role: validated(role, values, reported)[1] for role in roles}
    own = [*broken, *invalid_values, *(["%s is malformed" % _LAYOUT] if malformed else [])]
    invalid = [role for role in roles if errors[role] or any(problem.startswith(role + "_") for problem in own)]
    specification_errors = [error for role in roles for error in errors[role]]
    return Findings(
        [*specification_errors, *broken, *misspelled, *invalid_values, *layout, *_busy_problems(values)],
        notices,
        invalid,
        layout,
    )


def _busy_problems(values: Values) -> list[str]:
    uses = [name for name, is_set in _OF_CLUSTER.items() if is_set(values.get(name))]
    if values.get("nvidia_mig_busy") != "skip" or not uses:
        return []
    text = (
        "nvidia_mig_busy is skip, but with %s the node must advertise all resources of its layout: remove one of them"
    )
    return [text % uses[0]]


def _task_file_problems(values: Values) -> list[str]:
    """Problems of the task files that drain and return a node. They are on the controller."""
    given = {name: str(values[name]) for name in _TASKS if values.get(name)}
    if len(given) == 1:
        return ["%s is set without %s: give both" % (*given, *(name for name in _TASKS if name not in given))]
    wrong = [name for name, path in given.items() if not (os.path.isabs(path) and os.path.isfile(path))]
    return ["%s is %r: give the absolute path of a file on the controller" % (name, given[name]) for name in wrong]


def without_effect(own: t.Collection[str], extra: t.Collection[str]) -> list[str]:
    """Notices about variables of a host that playbooks read before the inventory."""
    return [
        "%s has no effect in the inventory, which is read later: give it with -e" % name
        for name in _KEYWORDS
        if name in own and name not in extra
    ]


def validated(role: str, values: Values, unreadable: t.Collection[str] = ()) -> tuple[dict[str, t.Any], list[str]]:
    """A role's variables, with defaults and of the types in its argument specification, and the errors in them."""
    options = {name: option for name, option in _main_options(role).items() if name not in unreadable}
    given = {name: _plain(values[name]) for name in options if name in values}
    result = ArgumentSpecValidator(options).validate(given)
    # Before ansible-core 2.19, messages contain the names of Python types.
    return result.validated_parameters, [_CLASS.sub(r"\1", message) for message in result.error_messages]


def validated_for_host(
    role: str, variables: Values, template: t.Callable[[t.Any], t.Any]
) -> tuple[dict[str, t.Any], list[str]]:
    """The same for a role's variables among those of a host, which may be templates."""
    return validated(role, {name: template(variables[name]) for name in variables_of(role).intersection(variables)})


def valid_for_host(role: str, variables: Values, template: t.Callable[[t.Any], t.Any]) -> dict[str, t.Any]:
    """The same without problems. Raises Refusal with all of them."""
    values, problems = validated_for_host(role, variables, template)
    if problems:
        raise Refusal(*problems)
    return values


def variables_of(role: str) -> set[str]:
    """The names of the variables that a role's main entry point reads."""
    return set(_main_options(role))


def forged_fact_problems(facts: t.Iterable[str]) -> list[str]:
    """A problem if facts of a host have names of variables that the roles use: by default, Ansible prefers the facts.

    ``facts`` are the keys of ansible_facts. Every module that runs on the host can return facts with any names, even
    inventory_hostname.
    """
    prefixes = (*(role + "_" for role in _described()), "inventory_", "report_")
    found = sorted(name for name in facts if name.lstrip("_").startswith(prefixes))
    return [_FORGED % ", ".join("%.70s" % name for name in found[:_MAX_FACTS])] if found else []


def forged_fact_problems_by_host(hostvars: t.Mapping[str, Values], hosts: t.Iterable[str]) -> dict[str, list[str]]:
    """The same for the facts of several hosts."""
    return {host: forged_fact_problems(hostvars[host].get("ansible_facts") or {}) for host in hosts}


def _plain(value: t.Any) -> t.Any:
    """The value with plain Python types, because messages may contain the names of types."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _unknown(names: t.Iterable[str]) -> tuple[list[str], list[str]]:
    """Unknown names with our prefixes: misspelled ones, and notices about those that may belong to another role."""
    misspelled, notices = [], []
    ours = known_variables()
    prefixes = {role + "_": {name for name in ours if name.startswith(role + "_")} for role in _described()}
    facts = {role + fact for role in _described() for fact in FACTS}  # set by an earlier play
    replaced = {name: text for names_of_role in equivalents().values() for name, text in names_of_role.items()}
    for name in sorted(set(names) - ours - facts):
        prefix = next((each for each in prefixes if name.startswith(each)), None)
        if prefix is None:
            continue
        rest = {each[len(prefix) :]: each for each in prefixes[prefix]}
        near = nearest(name[len(prefix) :], rest, _SIMILARITY)
        if name in replaced:
            notices.append("%s is not a variable of this collection, which has %s" % (name, replaced[name]))
        elif near:
            meant = did_you_mean([rest[each] for each in near])
            misspelled.append("%s is not a variable of this collection%s" % (name, meant))
        else:
            notices.append("%s is not a variable of this collection and has no effect here" % name)
    return misspelled, notices


@functools.cache
def equivalents() -> dict[str, dict[str, str]]:
    """What replaces variables of other collections' roles, by role and name."""
    return t.cast("dict[str, dict[str, str]]", yaml_load(_EQUIVALENTS.read_text(encoding="utf-8")))


@functools.cache
def _specifications(role: str) -> dict[str, t.Any]:
    text = (_ROLES / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
    return t.cast("dict[str, t.Any]", yaml_load(text)["argument_specs"])


def _main_options(role: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", _specifications(role)["main"]["options"])


@functools.cache
def _described() -> dict[str, dict[str, t.Any]]:
    """The options of all entry points, by role."""
    roles = sorted(path.parents[1].name for path in _ROLES.glob("*/meta/argument_specs.yml"))
    return {
        role: {
            name: option
            for entry in _specifications(role).values()
            for name, option in entry.get("options", {}).items()
        }
        for role in roles
    }


def _types() -> dict[str, str]:
    return {name: option.get("type", "str") for options in _described().values() for name, option in options.items()}
