# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of the charts: computed from the inventory, validated against the release's own keys."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_plugin_values, operator_values
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import releases as charts_releases
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal

Data = t.Dict[str, t.Any]
OPERATOR = ("25.3", "25.10", "26.3", "26.7")
PLUGIN = ("0.17", "0.18", "0.19", "0.20")
TAINT = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"}


def operator(**settings: t.Any) -> operator_values.Settings:
    return operator_values.Settings(**{"release": "26.7", "strategy": "mixed", **settings})


def plugin(**settings: t.Any) -> device_plugin_values.Settings:
    return device_plugin_values.Settings(**{"release": "0.20", "strategy": "mixed", **settings})


@pytest.mark.parametrize(
    ("chart", "version", "release"),
    [
        ("gpu-operator", "v25.3.4", "25.3"),
        ("gpu-operator", "25.10.1", "25.10"),
        ("gpu-operator", "v26.7.0-rc.1", "26.7"),
        ("nvidia-device-plugin", "0.17.4", "0.17"),
    ],
)
def test_releases(chart: str, version: str, release: str) -> None:
    assert charts_releases.release(chart, version) == release


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v24.9.2", "does not support gpu-operator v24.9.2: use one of the releases 25.3, 25.10, 26.3, 26.7"),
        ("latest", '"latest" is not a version of the chart gpu-operator: give one such as 26.7.1'),
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


@pytest.mark.parametrize("release", OPERATOR)
@pytest.mark.parametrize("owner", ["host", "operator"])
@pytest.mark.parametrize("host", [True, False])
def test_the_computed_values_are_keys_of_each_release(release: str, owner: str, host: bool) -> None:
    settings = operator(
        release=release, owner=owner, host_driver=host, host_toolkit=host, tolerations=[TAINT], rke2=True
    )
    assert (
        charts_releases.problems(operator_values.values(settings), charts_releases.keys("gpu-operator", release), "v")
        == []
    )
    assert operator_values.problems(settings) == []


@pytest.mark.parametrize("release", PLUGIN)
def test_the_computed_values_of_the_device_plugin_are_keys_of_each_release(release: str) -> None:
    settings = plugin(release=release, tolerations=[TAINT])
    assert (
        charts_releases.problems(
            device_plugin_values.values(settings), charts_releases.keys("nvidia-device-plugin", release), "v"
        )
        == []
    )


def test_what_the_host_provides_is_switched_off() -> None:
    assert operator_values.values(operator()) == {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "mig": {"strategy": "mixed"},
        "migManager": {"enabled": False, "config": {"default": "", "name": ""}},
    }


def test_the_operator_installs_what_the_host_lacks() -> None:
    values = operator_values.values(operator(host_driver=False, host_toolkit=False, rke2=True, owner="operator"))
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
        values = device_plugin_values.values(plugin(strategy=strategy))
        assert (values.get("securityContext") or {}).get("privileged") is privileged
        warnings = device_plugin_values.warnings(values, [])
        assert ["becomes privileged" in each for each in warnings] == [True] * bool(privileged)
    container = {"name": "nvidia-device-plugin-ctr", "securityContext": {"privileged": True}}
    existing = {
        "metadata": {"name": "nvidia-device-plugin"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    assert device_plugin_values.warnings(values, [existing]) == []
    own = device_plugin_values.values(plugin(overrides={"securityContext": {"privileged": False}}))
    assert own["securityContext"] == {"privileged": False}


def test_the_mig_manager_finds_the_hook_of_the_host() -> None:
    (reboot, hook) = operator_values.values(operator(owner="operator", reboot=True))["migManager"]["env"]
    assert reboot == {"name": "WITH_REBOOT", "value": "true"}
    assert hook == {"name": "NVIDIA_CDI_HOOK_PATH", "value": "/usr/bin/nvidia-cdi-hook"}


def test_tolerations_keep_those_of_the_chart() -> None:
    values = operator_values.values(operator(tolerations=[TAINT]))
    own = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert values["daemonsets"]["tolerations"] == [own, TAINT]
    workers = values["node-feature-discovery"]["worker"]["tolerations"]
    assert workers[2:] == [own, TAINT]
    assert [each["key"].rpartition("/")[2] for each in workers[:2]] == ["master", "control-plane"]
    assert device_plugin_values.values(plugin(tolerations=[TAINT]))["tolerations"][1:] == [own, TAINT]


def test_workers_tolerate_the_usual_taint_of_gpu_nodes() -> None:
    values = device_plugin_values.values(plugin())
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in values["nfd"]["worker"][
        "tolerations"
    ]
    # The device plugin runs on the nodes that node feature discovery labels.
    assert device_plugin_values.values(plugin(gfd=False))["nfd"]["enabled"] is True


@pytest.mark.parametrize("overrides", [{"migManager": None}, {"migManager": {"enabled": None}}, {"driver": None}])
def test_null_does_not_replace_checked_values(overrides: t.Any) -> None:
    (problem,) = operator_values.problems(operator(overrides=overrides))
    assert "is null: remove it, or give a value" in problem


def test_tolerations_are_set_in_one_place() -> None:
    overrides = {"daemonsets": {"tolerations": [TAINT]}}
    assert operator_values.problems(operator(overrides=overrides)) == []
    (problem,) = operator_values.problems(operator(overrides=overrides, tolerations=[TAINT]))
    assert "set only one of them" in problem


def test_the_users_values_win() -> None:
    overrides = {"driver": {"enabled": True, "version": "580.95.05"}, "cdi": {"enabled": False}}
    values = operator_values.values(operator(overrides=overrides))
    assert values["driver"] == {"enabled": True, "version": "580.95.05"}
    assert values["cdi"] == {"enabled": False}
    assert overrides == {"driver": {"enabled": True, "version": "580.95.05"}, "cdi": {"enabled": False}}


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
    (found,) = operator_values.problems(operator(overrides=overrides))
    assert found.startswith(problem)


def test_all_unknown_keys_are_reported() -> None:
    found = operator_values.problems(operator(overrides={"drivr": {}, "driver": {"enable": 1, "versoin": "2"}}))
    assert len(found) == 3


@pytest.mark.parametrize("overrides", [{"operator": {"resources": {"limits": {"x": 1}}}}, {"dcgm": None}])
def test_free_mappings_and_null_are_accepted(overrides: Data) -> None:
    assert operator_values.problems(operator(overrides=overrides)) == []


@pytest.mark.parametrize(("release", "refused"), [("25.3", True), ("25.10", True), ("26.3", False), ("26.7", False)])
def test_keys_depend_on_the_release(release: str, refused: bool) -> None:
    found = operator_values.problems(operator(release=release, overrides={"cdi": {"nriPluginEnabled": True}}))
    assert bool(found) is refused


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
        ("host", {"mig": {"strategy": "single"}}, ["set only gpu_operator_mig_strategy"]),
        ("host", {"driver": {"enabled": True}}, ["driver.enabled is true, but gpu_operator_driver is host"]),
        ("host", {"driver": {"enabled": False}, "toolkit": {"enabled": True}}, ["set only gpu_operator_toolkit"]),
        ("host", {"devicePlugin": {"enabled": False}}, ["no node would advertise GPUs"]),
        ("host", {"gpuCluster": {"deployCR": True}}, ["selects DRA"]),
        ("host", {"draDriver": {"featureGates": {"DynamicMIG": True}}}, ["DynamicMIG destroys"]),
        ("host", {"migManager": {"config": {"default": "all-disabled"}}}, []),  # disabled: it has no effect
    ],
)
def test_contradictions_are_refused(owner: str, overrides: Data, words: t.Sequence[str]) -> None:
    found = operator_values.problems(operator(owner=owner, overrides=overrides))
    assert [word in problem for word, problem in zip(words, found)] == [True] * len(words)
    assert len(found) == len(words)


def test_contradictions_of_the_device_plugin_are_refused() -> None:
    assert device_plugin_values.problems(plugin()) == []
    found = device_plugin_values.problems(
        plugin(overrides={"migStrategy": "single", "devicePlugin": {"enabled": False}})
    )
    assert len(found) == 2
    (unknown,) = device_plugin_values.problems(plugin(overrides={"migStrategi": "single"}))
    assert "did you mean migStrategy?" in unknown
