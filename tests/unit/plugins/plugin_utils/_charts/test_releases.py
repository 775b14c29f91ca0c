# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of the charts: computed from the inventory, validated against the release's own keys."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_plugin_values, operator_values
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import releases as charts_releases
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.mapping import Value, ValueInputs
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import variables

Data = t.Dict[str, t.Any]
OPERATOR = charts_releases.supported("gpu-operator")
PLUGIN = charts_releases.supported("nvidia-device-plugin")
TAINT = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"}


def inputs(role: str, release: str, **given: t.Any) -> t.Tuple[ValueInputs, str]:
    """The arguments of values and problems: the role's variables and other inputs, both by name, and defaults."""
    others = {name: given.pop(name) for name in ValueInputs._fields if name in given}
    return ValueInputs(variables(role, version=release + ".1", **given), **others), release


def operator(release: str = "26.7", **given: t.Any) -> t.Tuple[ValueInputs, str]:
    return inputs("gpu_operator", release, **given)


def plugin(release: str = "0.20", **given: t.Any) -> t.Tuple[ValueInputs, str]:
    return inputs("device_plugin", release, **given)


@pytest.mark.parametrize(
    ("chart", "version", "release"),
    [
        ("gpu-operator", "v25.3.4", "25.3"),
        ("gpu-operator", "25.10.1", "25.10"),
        ("gpu-operator", "v26.7.0-rc.1", "26.7"),
        ("gpu-operator", "v26.10.0", "26.7"),  # newer than all supported releases
        ("gpu-operator", "v100.1.0", "26.7"),
        ("nvidia-device-plugin", "0.17.4", "0.17"),
    ],
)
def test_releases(chart: str, version: str, release: str) -> None:
    assert charts_releases.release(chart, version) == release


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v24.9.2", "v24.9.2: use one of the releases 25.3, 25.10, 26.3, 26.7, or a newer one"),
        ("v26.5.0", "does not support gpu-operator v26.5.0"),  # between two that are supported
        ("latest", '"latest" is not a version of the chart gpu-operator: give one such as %s.1' % OPERATOR[-1]),
        (26.7, "26.7 is not a version"),
        ("v26.7", "is not a version"),
    ],
)
def test_unknown_versions_are_refused(version: object, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        charts_releases.release("gpu-operator", version)


def test_every_release_has_a_source_and_known_types() -> None:
    def leaves(tree: Data) -> t.Iterator[t.Any]:
        for item in tree.values():
            yield from leaves(item) if isinstance(item, dict) else [item]

    for chart, releases in (("gpu-operator", OPERATOR), ("nvidia-device-plugin", PLUGIN)):
        for release in releases:
            assert set(leaves(charts_releases.keys(chart, release))) <= {"bool", "int", "str", "list", "map", "any"}


# --- Values that variables set -----------------------------------------------------------------------------------------

ROLES = Path(__file__).resolve().parents[5] / "roles"
CHARTS: t.Dict[str, t.Any] = {"gpu_operator": operator_values, "device_plugin": device_plugin_values}
MAPPED = [
    pytest.param(role, chart, row, id="%s-%s" % (role, row.path))
    for role, chart in CHARTS.items()
    for row in chart.TABLE
]


def two(role: str, row: Value) -> t.Tuple[t.Any, t.Any]:
    """Two values of a variable, according to its argument specification."""
    specs = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    option = specs["main"]["options"]["%s_%s" % (role, row.variable)]
    samples: Data = {"bool": (True, False), "int": (1, 2), "str": ("one", "two"), "dict": (TAINT, {"a": "b"})}
    if option["type"] == "list":
        element = samples[option["elements"]][0]
        return [element], [element, element]
    first, second = option.get("choices", samples[option["type"]])[:2]
    return first, second


def overriding(path: str, value: t.Any) -> Data:
    for key in reversed(path.split(".")):
        value = {key: value}
    return t.cast("Data", value)


@pytest.mark.parametrize(("role", "chart", "row"), MAPPED)
def test_a_variable_sets_a_value_that_every_release_has(role: str, chart: t.Any, row: Value) -> None:
    for release in OPERATOR if chart is operator_values else PLUGIN:
        found = []
        for given in two(role, row):
            values = chart.values(*inputs(role, release, **{row.variable: given}))
            assert charts_releases.value_problems(values, charts_releases.keys(chart.CHART, release), "v") == []
            found.append(charts_releases.value_at(values, row.path))
        assert None not in found and found[0] != found[1]


@pytest.mark.parametrize(("role", "chart", "row"), MAPPED)
def test_a_value_contradicts_its_variable_or_replaces_it(role: str, chart: t.Any, row: Value) -> None:
    given, other = two(role, row)
    release = "26.7" if chart is operator_values else "0.20"
    replaced = charts_releases.value_at(chart.values(*inputs(role, release, **{row.variable: other})), row.path)
    both = inputs(role, release, **{row.variable: given, "values": overriding(row.path, replaced)})
    found = chart.problems(*both)
    assert charts_releases.value_at(chart.values(*both), row.path) == replaced
    assert [problem.startswith("%s_values.%s is " % (role, row.path)) for problem in found] == (
        [] if row.replaceable else [True]
    )
    assert [problem.endswith(": set only %s_%s" % (role, row.variable)) for problem in found] == [True] * len(found)


@pytest.mark.parametrize(("role", "chart"), CHARTS.items())
def test_the_readme_of_the_role_names_the_values(role: str, chart: t.Any) -> None:
    text = (ROLES / role / "README.md").read_text()
    assert [row.path for row in chart.TABLE if "`%s`" % row.path not in text] == []


def test_an_empty_variable_leaves_the_default_of_the_chart() -> None:
    assert "runtimeClassName" not in device_plugin_values.values(*plugin(runtime_class=""))
    assert operator_values.problems(*operator(values={"daemonsets": {"tolerations": [TAINT]}})) == []


# --- Computed values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", OPERATOR)
@pytest.mark.parametrize("owner", ["host", "operator"])
@pytest.mark.parametrize("installer", ["host", "operator"])
def test_the_computed_values_are_keys_of_each_release(release: str, owner: str, installer: str) -> None:
    given = operator(release=release, owner=owner, toolkit=installer, rke2=True, sharing=True, mig_unused=True)
    keys = charts_releases.keys("gpu-operator", release)
    assert charts_releases.value_problems(operator_values.values(*given), keys, "v") == []
    assert operator_values.problems(*given) == []


@pytest.mark.parametrize("release", PLUGIN)
def test_the_computed_values_of_the_device_plugin_are_keys_of_each_release(release: str) -> None:
    keys = charts_releases.keys("nvidia-device-plugin", release)
    given = plugin(release=release, sharing=True)
    assert charts_releases.value_problems(device_plugin_values.values(*given), keys, "v") == []


def test_what_the_host_provides_is_switched_off() -> None:
    values = operator_values.values(*operator())
    assert values["driver"] == values["toolkit"] == {"enabled": False}
    assert values["migManager"] == {"enabled": False, "config": {"default": "", "name": ""}}


def test_the_operator_installs_what_the_host_lacks() -> None:
    values = operator_values.values(*operator(driver="operator", toolkit="operator", rke2=True, owner="operator"))
    assert values["driver"] == {"enabled": True}
    assert values["toolkit"] == {
        "enabled": True,
        "env": [{"name": "CONTAINERD_SOCKET", "value": "/run/k3s/containerd/containerd.sock"}],
    }
    assert values["migManager"] == {
        "enabled": True,
        "config": {"default": "", "name": "gpufleet-mig-configs"},
        "env": [{"name": "WITH_REBOOT", "value": "false"}],
    }


def test_the_device_plugin_may_open_gpu_instances() -> None:
    """With the chart's own security context, it exits: "error getting GPU Instance: Insufficient Permissions"."""
    for strategy, privileged in (("none", None), ("single", None), ("mixed", True)):
        values = device_plugin_values.values(*plugin(mig_strategy=strategy))
        assert (values.get("securityContext") or {}).get("privileged") is privileged
        warnings = device_plugin_values.warnings(values, [])
        assert ["becomes privileged" in each for each in warnings] == [True] * bool(privileged)
    container = {"name": "nvidia-device-plugin-ctr", "securityContext": {"privileged": True}}
    existing = {
        "metadata": {"name": "nvidia-device-plugin"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    assert device_plugin_values.warnings(values, [existing]) == []
    own = device_plugin_values.values(*plugin(values={"securityContext": {"privileged": False}}))
    assert own["securityContext"] == {"privileged": False}


def test_the_mig_manager_finds_the_hook_of_the_host() -> None:
    (reboot, hook) = operator_values.values(*operator(owner="operator", reboot=True))["migManager"]["env"]
    assert reboot == {"name": "WITH_REBOOT", "value": "true"}
    assert hook == {"name": "NVIDIA_CDI_HOOK_PATH", "value": "/usr/bin/nvidia-cdi-hook"}


def test_tolerations_keep_those_of_the_chart() -> None:
    values = operator_values.values(*operator(tolerations=[TAINT]))
    own = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert values["daemonsets"]["tolerations"] == [own, TAINT]
    workers = values["node-feature-discovery"]["worker"]["tolerations"]
    assert workers[2:] == [own, TAINT]
    assert [each["key"].rpartition("/")[2] for each in workers[:2]] == ["master", "control-plane"]
    assert device_plugin_values.values(*plugin(tolerations=[TAINT]))["tolerations"][1:] == [own, TAINT]


def test_workers_tolerate_the_usual_taint_of_gpu_nodes() -> None:
    values = device_plugin_values.values(*plugin())
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in values["nfd"]["worker"][
        "tolerations"
    ]
    # The device plugin runs on the nodes that node feature discovery labels.
    assert device_plugin_values.values(*plugin(gfd=False))["nfd"]["enabled"] is True


@pytest.mark.parametrize("overrides", [{"migManager": None}, {"migManager": {"enabled": None}}, {"driver": None}])
def test_null_does_not_replace_checked_values(overrides: t.Any) -> None:
    (problem,) = operator_values.problems(*operator(values=overrides))
    assert "is null: remove it, or give a value" in problem


def test_the_users_values_win() -> None:
    overrides = {"driver": {"enabled": True, "version": "580.95.05"}, "cdi": {"enabled": False}}
    values = operator_values.values(*operator(values=overrides, mig_unused=True))
    assert values["driver"] == {"enabled": True, "version": "580.95.05"}
    assert values["cdi"] == {"enabled": False}


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"drivr": {}}, "gpu_operator_values has the unknown key drivr (did you mean driver?): use "),
        (
            {"driver": {"enable": False}},
            "gpu_operator_values.driver has the unknown key enable (did you mean enabled?)",
        ),
        (
            {"driver": {"enabled": "no"}},
            'gpu_operator_values.driver.enabled is "no": give true or false, without quotes',
        ),
        (
            {"driver": {"version": 580.95}},
            "gpu_operator_values.driver.version is 580.95: give a string; quote numbers",
        ),
        ({"driver": False}, "gpu_operator_values.driver is false: give a mapping"),
        ({"toolkit": {"env": {"A": "b"}}}, "gpu_operator_values.toolkit.env is "),
        ({1: 2}, "gpu_operator_values has the unknown key 1: use "),
        ([], "gpu_operator_values is []: give a mapping"),
    ],
)
def test_invalid_values_are_refused(overrides: t.Any, problem: str) -> None:
    (found,) = operator_values.problems(*operator(values=overrides))
    assert found.startswith(problem)


def test_all_unknown_keys_are_reported() -> None:
    found = operator_values.problems(*operator(values={"drivr": {}, "driver": {"enable": 1, "versoin": "2"}}))
    assert len(found) == 3


def test_free_mappings_and_null_are_accepted() -> None:
    unset = min(set(charts_releases.keys("gpu-operator", "26.7")) - set(operator_values.values(*operator())))
    for overrides in ({"operator": {"resources": {"limits": {"x": 1}}}}, {unset: None}):
        assert operator_values.problems(*operator(values=overrides)) == []


@pytest.mark.parametrize(("release", "refused"), [("25.3", True), ("25.10", True), ("26.3", False), ("26.7", False)])
def test_keys_depend_on_the_release(release: str, refused: bool) -> None:
    found = operator_values.problems(*operator(release=release, values={"cdi": {"nriPluginEnabled": True}}))
    assert bool(found) is refused


def test_a_newer_release_may_have_unknown_keys_but_no_wrong_types() -> None:
    given: Data = {"driver": {"enable": True, "version": 580.95}, "drivr": {}}
    (found,) = operator_values.problems(inputs("gpu_operator", "26.10", values=given)[0], "26.7")
    assert found.startswith("gpu_operator_values.driver.version is 580.95: give a string")
    unknown = inputs("device_plugin", "0.21", values={"migStrategi": "single"})
    assert device_plugin_values.problems(unknown[0], "0.20") == []


@pytest.mark.parametrize(
    ("owner", "overrides", "words"),
    [
        ("host", {"migManager": {"enabled": True}}, ["nvidia_mig_owner is host: two owners"]),
        (
            "host",
            {"migManager": {"enabled": True, "config": {"default": "all-disabled"}}},
            ["nvidia_mig_owner is host: two owners", "config.default is all-disabled"],
        ),
        ("operator", {"migManager": {"config": {"default": "all-disabled"}}}, ["config.default is all-disabled"]),
        ("operator", {"migManager": {"config": {"default": "all-1g.10gb"}}}, ["config.default is all-1g.10gb"]),
        ("operator", {"migManager": {"enabled": False}}, ["nothing would apply the layouts"]),
        ("operator", {"migManager": {"config": {"name": "mine"}}}, ["must be gpufleet-mig-configs"]),
        ("host", {"devicePlugin": {"enabled": False}}, ["no node would advertise GPUs"]),
        ("host", {"gpuCluster": {"deployCR": True}}, ["selects DRA"]),
        ("host", {"draDriver": {"featureGates": {"DynamicMIG": True}}}, ["DynamicMIG destroys"]),
        ("host", {"migManager": {"config": {"default": "all-disabled"}}}, []),  # disabled: it has no effect
    ],
)
def test_contradictions_are_refused(owner: str, overrides: Data, words: t.Sequence[str]) -> None:
    found = operator_values.problems(*operator(owner=owner, values=overrides))
    assert [word in problem for word, problem in zip(words, found)] == [True] * len(words)
    assert len(found) == len(words)


def test_contradictions_of_the_device_plugin_are_refused() -> None:
    assert device_plugin_values.problems(*plugin()) == []
    (problem,) = device_plugin_values.problems(*plugin(values={"devicePlugin": {"enabled": False}}))
    assert "no node would advertise GPUs" in problem
    (unknown,) = device_plugin_values.problems(*plugin(values={"migStrategi": "single"}))
    assert "did you mean migStrategy?" in unknown
