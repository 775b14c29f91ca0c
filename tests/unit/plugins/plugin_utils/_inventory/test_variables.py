# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All problems of a host's variables are reported at once."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables

LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]


def check(
    values: t.Mapping[str, t.Any], *roles: str, others: t.Sequence[str] = (), **unreadable: str
) -> variables.Findings:
    return variables.check_variables([*values, *unreadable, *others], values, unreadable, ["gpu_node", *roles])


def test_a_valid_inventory() -> None:
    values = {"nvidia_mig_layout": LAYOUT, "gpu_node_boards": ["A100-80GB"], "nvidia_mig_reset": "yes"}
    assert check(values, "nvidia_mig", others=["ansible_host", "my_nvidia_mig_layuot"]) == variables.NOTHING


def test_all_mistakes_of_one_inventory_are_reported_together() -> None:
    values = {
        "nvidia_mig_layout": [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 8}}],
        "gpu_node_boards": ["A100-80GB"],
        "nvidia_mig_reset": "perhaps",
        "nvidia_mig_lock_wait": "long",
        "nvidia_mig_backend": "dcgm",
        "nvidia_mig_lock_path": "lock",
        "gpu_node_hosts_entries": [{"address": "192.0.2.1"}],
    }
    problems = check(
        values, "nvidia_mig", others=["nvidia_mig_layuot"], nvidia_mig_access_group="'team' is undefined"
    ).problems
    for words in (
        "nvidia_mig_reset is 'perhaps': give true or false",
        "argument 'nvidia_mig_lock_wait' is of type str and we were unable to convert to int",
        "value of nvidia_mig_backend must be one of: auto, nvml, nvidia_smi, got: dcgm",
        "missing required arguments: names found in gpu_node_hosts_entries",
        "nvidia_mig_access_group cannot be read: 'team' is undefined",
        "nvidia_mig_layuot is not a variable of this collection (did you mean nvidia_mig_layout?)",
        "nvidia_mig_lock_path is 'lock': give an absolute path",
        "1g.10gb: 8 does not fit",
    ):
        assert [problem for problem in problems if words in problem], (words, problems)


JSON = """give a list as JSON, for example -e '{"nvidia_mig_layout": [{"devices": "all","""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"nvidia_mig_layout": "[{devices: all}]"},
            'nvidia_mig_layout is the string "[{devices: all}]", not a list of',
        ),
        ({"nvidia_mig_layout": '[{"devices": "all", "mig_enabled": false}]'}, JSON),
        ({"nvidia_mig_layout": ""}, JSON),
        ({"nvidia_mig_layout": None}, "nvidia_mig_layout is null: write a list of entries"),
        (
            {"nvidia_mig_layout": LAYOUT[0]},
            "nvidia_mig_layout is a single mapping, not a list of entries: put a dash in",
        ),
        (
            {"nvidia_mig_layout": {"version": "v1", "mig-configs": {}}},
            "nvidia_mig_layout is a whole mig-parted document: give the list under one of its mig-configs",
        ),
        ({"nvidia_mig_layout": ["a"]}, 'entry 1 is "a": write a mapping'),
        ({"nvidia_mig_layout": [None]}, "entry 1 is null: write a mapping"),
        ({"nvidia_mig_layout": [{}], "gpu_node_boards": ["A100-80GB"]}, "entry 1 has no devices"),
        ({"nvidia_mig_layout": LAYOUT, "gpu_node_boards": "A100-80GB"}, "gpu_node_boards is 'A100-80GB': give a list"),
        ({"nvidia_mig_layout": LAYOUT, "gpu_node_boards": None}, "gpu_node_boards is null: give a value"),
        ({"nvidia_mig_layout": LAYOUT, "gpu_node_hosts_entries": "x"}, "gpu_node_hosts_entries is 'x': give a list"),
        (
            {"nvidia_mig_layout": LAYOUT, "gpu_node_hosts_entries": [{"address": "192.0.2.1"}]},
            "missing required arguments: names found in gpu_node_hosts_entries",
        ),
        ({"nvidia_mig_layout": LAYOUT, "nvidia_mig_boot_before": {}}, "nvidia_mig_boot_before is {}: give a list"),
    ],
)
def test_a_value_of_the_wrong_type_is_one_problem(values: t.Dict[str, t.Any], words: str) -> None:
    found = check(values, "nvidia_mig")
    (problem,) = found.problems
    assert words in problem
    assert "gpu_node" in found.invalid if "gpu_node" in problem else "nvidia_mig" in found.invalid


NAMED = {"seven": LAYOUT, "off": [{"devices": "all", "mig_enabled": False}]}


def test_a_layout_may_be_named() -> None:
    values = {"nvidia_mig_layouts": NAMED, "nvidia_mig_layout": "seven", "gpu_node_boards": ["A100-80GB"]}
    assert check(values, "nvidia_mig").problems == []
    (problem,) = check({**values, "gpu_node_boards": ["A30"]}, "nvidia_mig").layout
    assert "1g.10gb" in problem


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nvidia_mig_layout": "sevn"}, '"sevn", not a list of entries or a name in nvidia_mig_layouts (seven, off)'),
        ({"nvidia_mig_layout": "sevn"}, "(did you mean seven?)"),
        ({"nvidia_mig_layout": "seven", "nvidia_mig_layouts": {}}, '"seven", not a list of entries or a name in nvid'),
        ({"nvidia_mig_layout": "[]"}, JSON),
        ({"nvidia_mig_layouts": [1]}, "nvidia_mig_layouts is [1]: give a mapping"),
        ({"nvidia_mig_layouts": {"a": [{}]}}, "a in nvidia_mig_layouts: entry 1 has no devices"),
        ({"nvidia_mig_layouts": {"a": None}}, "a in nvidia_mig_layouts: the layout is null"),
        ({"nvidia_mig_layouts": {True: LAYOUT}}, "the name true in nvidia_mig_layouts is not a string: put it in"),
        ({"nvidia_mig_layouts": {"a": "seven"}, "nvidia_mig_layout": "a"}, 'the string "seven"'),
        ({"nvidia_mig_layouts": {"a": [{}]}, "nvidia_mig_layout": "a"}, "entry 1"),
    ],
)
def test_named_layouts_that_cannot_work(values: t.Dict[str, t.Any], words: str) -> None:
    """One problem each, also for layouts that are not chosen."""
    given = {"nvidia_mig_layout": LAYOUT, "nvidia_mig_layouts": NAMED, **values}
    (problem,) = check(given, "nvidia_mig").problems
    assert words in problem


def test_a_layout_is_checked_although_the_boards_are_unusable() -> None:
    assert len(check({"nvidia_mig_layout": [{}], "gpu_node_boards": ["A1"]}, "nvidia_mig").problems) == 2
    assert len(check({"nvidia_mig_layout": [{}]}, "nvidia_mig", gpu_node_boards="'x' is undefined").problems) == 2


def test_a_layout_is_not_compared_with_boards_that_the_node_does_not_have() -> None:
    values = {"nvidia_mig_layout": [dict(LAYOUT[0], devices=[1])], "gpu_node_boards": ["A100-80GB"]}
    (problem,) = check(values, "nvidia_mig").layout
    assert "index 1 matches no GPU" in problem
    assert (
        variables.check_variables(list(values), values, {}, ["gpu_node", "nvidia_mig"], compares_layout=False).problems
        == []
    )


class _Tagged(str):
    """One of Ansible's own string types."""


def test_types_have_the_names_of_the_current_ansible() -> None:
    """Before ansible-core 2.19, the name would be <class 'ansible.parsing.yaml.objects.AnsibleUnicode'>."""
    (problem,) = check({"nvidia_mig_lock_wait": _Tagged("long"), "nvidia_mig_layout": LAYOUT}, "nvidia_mig").problems
    assert problem.startswith("argument 'nvidia_mig_lock_wait' is of type str and we were unable to convert to int")


def test_required_variables_of_selected_roles() -> None:
    assert check({}).problems == []
    assert check({}, "nvidia_mig").problems == ["missing required arguments: nvidia_mig_layout"]
    assert check({}, "nvidia_mig", nvidia_mig_layout="'x' is undefined").problems == [
        "nvidia_mig_layout cannot be read: 'x' is undefined"
    ]


@pytest.mark.parametrize(
    ("name", "problem", "notice"),
    [
        ("nvidia_mig_layuot", "did you mean nvidia_mig_layout?", ""),
        ("gpu_node_board", "did you mean gpu_node_boards?", ""),
        ("nvidia_driver_brunch", "did you mean nvidia_driver_branch?", ""),
        ("nvidia_driver_skip_reboot", "", "nvidia_driver_reboot, with the opposite value"),
        ("nvidia_driver_package_version", "", "which has nvidia_driver_version"),
        ("nvidia_driver_module_file", "", "has no effect here"),
        ("nvidia_driver_", "", "has no effect here"),
        ("rke2_version", "", ""),
        ("gpu_node_environment", "", ""),
        ("nvidia_mig_problems", "", ""),
    ],
)
def test_near_misses_are_problems_and_other_roles_variables_notices(name: str, problem: str, notice: str) -> None:
    found = check({}, others=[name])
    for expected, sentences in ((problem, found.problems), (notice, found.notices)):
        assert len(sentences) == bool(expected)
        assert all(sentence.startswith(name + " is ") and expected in sentence for sentence in sentences)


def test_variables_of_another_rke2_role_are_not_checked() -> None:
    """lablabs.rke2 has the same prefix, and variables of other types."""
    values = {"rke2_config": "templates/config.yaml.j2", "rke2_server_node_taints": None}
    others = ["rke2_cni", "rke2_versoin"]
    assert check(values, others=others, rke2_api_ip="'x' is undefined") == variables.NOTHING
    found = check({}, "rke2", others=others)
    assert found.problems == ["rke2_versoin is not a variable of this collection (did you mean rke2_version?)"]
    assert found.notices == ["rke2_cni is not a variable of this collection, which has rke2_config with the key cni"]
    (problem,) = check({"rke2_config": "templates/config.yaml.j2"}, "rke2").invalid
    assert problem == "rke2"


def test_the_task_files_that_drain_and_return_a_node_exist_on_the_controller(tmp_path: Path) -> None:
    drain, back = "gpu_node_drain_tasks", "gpu_node_return_tasks"
    path = str(tmp_path / "tasks.yml")
    assert check({drain: path}).problems == ["%s is set without %s: give both" % (drain, back)]
    assert check({drain: path, back: path}).problems[1] == (
        "%s is %r: give the absolute path of a file on the controller" % (back, path)
    )
    (tmp_path / "tasks.yml").touch()
    assert check({drain: path, back: path}) == check({drain: "", back: ""}) == variables.NOTHING
    assert len(check({drain: path, back: "tasks.yml"}).problems) == 1


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"gpu_cluster_drain": True}, "gpu_cluster_drain"),
        ({"gpu_cluster_drain": "no", "gpu_operator_version": ""}, None),
        ({"device_plugin_version": "0.20.0"}, "device_plugin_version"),
        ({"gpu_operator_version": "26.3.1", "nvidia_mig_busy": "fail"}, None),
    ],
)
def test_deferred_gpus_are_refused_in_a_cluster(values: t.Dict[str, t.Any], named: t.Optional[str]) -> None:
    problems = check({"nvidia_mig_layout": LAYOUT, "nvidia_mig_busy": "skip", **values}, "nvidia_mig").problems
    assert [problem.split()[5] for problem in problems] == ([named] if named else [])


def test_keywords_of_plays_in_the_inventory() -> None:
    own = {"gpu_node_batches": 1, "gpu_node_roles": ["all"]}
    assert variables.without_effect(own, {"gpu_node_batches": 1}) == []
    (notice,) = variables.without_effect(own, {})
    assert notice.startswith("gpu_node_batches has no effect in the inventory")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("rke2_token", "swordfish\n", "no control characters"),
        ("rke2_config", "etcd-s3-secret-key: swordfish", "give a mapping"),
        ("rke2_registries", [{"password": "swordfish"}], "give a mapping"),
        ("rke2_environment_options", "HTTPS_PROXY=http://user:swordfish@proxy", "give a list"),
        ("gpu_node_environment", "https_proxy=http://user:swordfish@proxy", "give a dictionary"),
        ("gpu_cluster_pip_arguments", "--index-url=https://user:swordfish@pypi", "give a list"),
    ],
)
def test_secrets_are_not_shown(name: str, value: t.Any, remedy: str) -> None:
    (problem,) = check({name: value}, "rke2").problems
    assert problem == "%s is invalid: %s" % (name, remedy)


def test_facts_with_names_of_variables() -> None:
    """Ansible's own facts, those of this collection, and those of other software have other names."""
    assert variables.forged_fact_problems(["nvidia", "nodename", "gpus", "ansible_local", "rke2", "gpu_model"]) == []
    (problem,) = variables.forged_fact_problems(
        ["__gpu_cluster_python", "rke2_token", "nvidia", "gpu_cluster_" + "a" * 1000]
    )
    assert "they would replace: __gpu_cluster_python, gpu_cluster_aaa" in problem and len(problem) < 400
    (problem,) = variables.forged_fact_problems(["inventory_hostname", "inventory_dir"])
    assert "they would replace: inventory_dir, inventory_hostname." in problem
