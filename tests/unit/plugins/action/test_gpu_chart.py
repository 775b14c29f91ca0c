# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins gpu_chart_plan and gpu_chart_wait."""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_plan, gpu_chart_wait
from ansible_collections.gpufleet.node.plugins.modules import gpu_chart_plan as documentation
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import ON_SERVER, action, host
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, pod, waiting

Data = t.Dict[str, t.Any]


@pytest.fixture(name="helm", autouse=True)
def fixture_helm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_chart_plan.shutil, "which", lambda name: "/usr/bin/" + name)


def plan(
    hosts: t.Sequence[Data],
    nodes: t.Optional[t.Sequence[str]] = None,
    failed: t.Sequence[Data] = (),
    helm_controller: bool = False,
    allowed: bool | None = True,  # None: the API does not accept reviews
    **variables: t.Any,
) -> Data:
    names = [each["inventory_hostname"] for each in hosts]
    found = action(gpu_chart_plan, "gpu_chart_plan", {"role": "gpu_operator"})

    def execute(module_name: str, module_args: Data, **_others: t.Any) -> Data:
        if module_name == "kubernetes.core.k8s":
            if allowed is None:
                return {"failed": True, "msg": "Reason: Forbidden"}
            status = {"allowed": allowed}
            return {
                "result": {
                    "results": [{"result": {**each, "status": status}} for each in module_args["resource_definition"]]
                }
            }
        items = {"Node": [node(name) for name in nodes or names]}
        known = {"HelmChart": helm_controller}
        return {
            "results": [
                {"resources": items.get(each["kind"], []), "api_found": known.get(each["kind"], True)}
                for each in module_args["requests"]
            ]
        }

    found._execute_module = execute
    hostvars = {each["inventory_hostname"]: each for each in [*hosts, *failed]}
    plays = {"ansible_play_hosts": names, "ansible_play_hosts_all": list(hostvars)}
    result: Data = found.run(task_vars={**hosts[0], "hostvars": hostvars, **plays, **variables})
    return result


def test_a_plan_for_two_hosts() -> None:
    result = plan([host("a", gpu_operator_version="v26.7.0"), host("b", gpu_operator_version="v26.7.0")])
    assert set(yaml.safe_load(documentation.RETURN)) == set(result) - {"changed"}
    assert (result["changed"], result["problems"], result["missing"]) == (False, {}, False)
    assert sorted(result["expected"]) == ["a", "b"]
    assert result["settings"]["namespace"] == "gpu-operator"
    chart = result["helm_chart"]["definition"]["spec"]
    assert (chart["chart"], chart["version"]) == ("gpu-operator", "v26.7.0")
    assert all(chart.values())  # helm-controller removes empty keys, and null is not allowed


@pytest.mark.parametrize("nvidia", [5, [], "x", {"gpus": 5}, {"gpus": "x"}, {"gpus": [1]}, {"gpus": [{"mig": 1}]}])
def test_malformed_facts_do_not_stop_the_plan_for_other_hosts(nvidia: object) -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["ansible_facts"]["nvidia"] = nvidia
    assert sorted(plan(hosts)["expected"]) == ["a", "b"]


@pytest.mark.parametrize("changed", ["x", [1], {"a": 1}, 10**400])
def test_a_malformed_time_does_not_stop_the_plan_for_other_hosts(changed: object) -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["gpu_cluster_mig_changed"] = changed
    assert sorted(plan(hosts)["expected"]) == ["a", "b"]


def test_facts_that_replace_variables() -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["ansible_facts"]["gpu_cluster_node_name"] = "server-1"
    result = plan(hosts)
    assert "expected" not in result
    assert any("facts with the names of variables" in problem for problem in result["problems"]["b"])


def test_helm_is_needed_on_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_chart_plan.shutil, "which", lambda _name: None)
    hosts = [host("a", gpu_operator_version="v26.7.0")]
    result = plan(hosts)
    assert "expected" not in result and result["problems"]["a"][0].startswith("the controller lacks the command helm")
    assert plan(hosts, **ON_SERVER)["problems"] == {}
    assert plan(hosts, helm_controller=True)["problems"] == {}


def test_all_permissions_are_reviewed() -> None:
    (problem,) = plan([host("a", gpu_operator_version="v26.7.0")], allowed=False)["problems"]["a"]
    assert "create namespaces, patch namespaces, get nodes, patch nodes, create runtimeclasses" in problem


def test_a_warning_if_permissions_cannot_be_reviewed() -> None:
    hosts = [host("a", gpu_operator_version="v26.7.0")]
    (warning,) = plan(hosts, allowed=None)["warnings"]
    assert "could not be checked" in warning and warning.endswith("Reason: Forbidden")
    assert "warnings" not in plan(hosts)


def test_names_of_nodes() -> None:
    first = host("a", gpu_operator_version="v26.7.0", gpu_cluster_node_name="node-1")
    second = host("b", gpu_operator_version="v26.7.0", rke2_node_name="node-2")
    assert sorted(plan([first, second], ["node-1", "node-2"])["expected"]) == ["node-1", "node-2"]


def test_missing_and_invalid_variables_are_problems() -> None:
    (missing,) = plan([host("a")])["problems"]["a"]
    assert "gpu_operator_version" in missing
    (invalid,) = plan([host("a", gpu_operator_version="v26.7.0", gpu_operator_method="kustomize")])["problems"]["a"]
    assert "gpu_operator_method" in invalid


def test_variables_must_be_equal_on_all_hosts() -> None:
    hosts = [host("a", gpu_operator_version="v26.7.0"), host("b", gpu_operator_version="v25.10.1")]
    (problem,) = plan(hosts)["problems"]["b"]
    assert problem.startswith("gpu_operator_version differs from its value on a, but cluster roles run once")


@pytest.mark.parametrize("owners", [("operator", None), (None, "operator")])
def test_a_host_without_a_variable_has_its_default(owners: t.Sequence[t.Optional[str]]) -> None:
    each = [{} if owner is None else {"nvidia_mig_owner": owner} for owner in owners]
    hosts = [host(name, gpu_operator_version="v26.7.0", **given) for name, given in zip("ab", each)]
    assert any("nvidia_mig_owner differs" in problem for problem in plan(hosts)["problems"]["b"])


@pytest.mark.parametrize("owner", ["operator", "host"])
def test_reboots_must_be_equal_only_if_the_operator_makes_them(owner: str) -> None:
    given = {"gpu_operator_version": "v26.7.0", "nvidia_mig_owner": owner}
    hosts = [host("a", **given, nvidia_mig_reboot=True), host("b", **given)]
    assert ("b" in plan(hosts)["problems"]) == (owner == "operator")


@pytest.mark.parametrize("first", [True, False])
def test_a_host_without_gpus_needs_no_owner_of_mig(first: bool) -> None:
    server = {**host("b", gpu_operator_version="v26.7.0"), "ansible_facts": {"nvidia": {"gpus": []}, "nodename": "b"}}
    hosts = [host("a", gpu_operator_version="v26.7.0", nvidia_mig_owner="operator"), server]
    result = plan(hosts[::-1] if first else hosts)
    assert result["problems"] == {} and result["expected"]["a"]["config"]


def test_the_values_of_the_chart_also_depend_on_hosts_that_failed_before() -> None:
    """Otherwise verify would report a difference."""
    values = {"gpu_operator_version": "v26.7.0", "gpu_operator_mig_strategy": "none"}
    failed, other = host("a", **values), {**host("b", **values), "nvidia_mig_layout": None}
    assert plan([other], failed=[failed])["chart_values"] == plan([failed, other])["chart_values"]
    assert plan([other])["chart_values"] != plan([failed, other])["chart_values"]


def test_a_chart_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chart.tgz").write_bytes(b"archive")
    finds = lambda _action, folder, name: str(tmp_path / name) if folder == "files" else ""  # noqa: E731
    monkeypatch.setattr(gpu_chart_plan.ActionModule, "_find_needle", finds)
    found = plan([host("a", gpu_operator_version="v26.7.0", gpu_operator_chart_file="chart.tgz")])
    assert base64.b64decode(found["helm_chart"]["definition"]["spec"]["chartContent"]) == b"archive"


class Clock:
    """Time that passes only while the action sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.shown: t.List[str] = []
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(progress.time, "sleep", self.sleep)
        monkeypatch.setattr(gpu_chart_wait, "show", self.shown.append)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def wait(*readings: t.Any, log: t.Sequence[str] = (), **arguments: t.Any) -> Data:
    """Run the action. Each reading is a node with an optional list of pods, or an error message."""
    left = list(readings)
    given = {"expected": {"a": {"resources": {"nvidia.com/gpu": 7}}}, "namespace": "ns", "timeout": 60, **arguments}
    found = action(gpu_chart_wait, "gpu_chart_wait", given)

    def execute(module_name: str, module_args: Data, task_vars: object) -> Data:
        if module_name == "kubernetes.core.k8s_log":
            return {"log": "\n".join(log)}
        reading = left[0]
        if isinstance(reading, str):
            left.pop(0)
            return {"failed": True, "msg": reading}
        if len(left) > 1:
            left.pop(0)
        assert [each["kind"] for each in module_args["requests"]] == ["Node", "Pod"]
        return {"results": [{"resources": [reading[0]]}, {"resources": reading[1]}]}

    found._execute_module = execute
    result: Data = found.run(task_vars={})
    return result


READY = (node("a", {"nvidia.com/gpu": "7"}), [])
NOT_YET = (node("a"), [])


def test_an_error_that_does_not_pass_ends_the_wait(clock: Clock) -> None:
    result = wait("Invalid kube-config file. No configuration found.", READY)
    assert "the cluster cannot be read: Invalid kube-config file" in result["msg"] and clock.now == 100.0


def test_waits_and_shows_progress_once(clock: Clock) -> None:
    result = wait(NOT_YET, NOT_YET, READY)
    assert "failed" not in result and clock.now == 103.0
    assert clock.shown == ["waiting, 60 s left: a: advertises no GPUs, should advertise nvidia.com/gpu: 7"]


def test_an_api_server_that_is_gone_for_a_while(clock: Clock) -> None:
    result = wait(NOT_YET, "Connection refused", READY)
    assert "failed" not in result
    assert clock.shown[1].endswith("the cluster cannot be read: Connection refused")


def test_the_time_limit_ends_with_reason_and_log(clock: Clock) -> None:
    crashed = waiting("plugin-1", "CrashLoopBackOff", node_name="a", last=1)
    result = wait((node("a"), [crashed]), log=["one", "two"], timeout=20)
    assert result["failed"] and clock.now == 122.0
    assert result["msg"].split("\n") == [
        "After 20 seconds:",
        "a: advertises no GPUs, should advertise nvidia.com/gpu: 7",
        "container main of pod plugin-1 ended with status 1",
        "Last lines of the log of container main of pod plugin-1:",
        "  one",
        "  two",
    ]


def test_a_failure_ends_the_wait_at_once(clock: Clock) -> None:
    labels = {"nvidia.com/mig.config": "x", "nvidia.com/mig.config.state": "failed"}
    manager = pod("manager-1", "a", app="nvidia-mig-manager")
    result = wait((node("a", **labels), [manager]), expected={"a": {"config": "x"}}, log=["why"])
    assert clock.now == 100.0
    assert result["problems"] == ["a: the MIG manager could not apply x"]
    assert result["msg"].endswith("Last lines of the log of container main of pod manager-1:\n  why")


def test_reads_one_node_and_its_pods(clock: Clock) -> None:
    asked: t.List[t.Any] = []

    def execute(module_name: str, module_args: Data, task_vars: object) -> Data:
        asked.extend(module_args["requests"])
        return {"results": [{"resources": [READY[0]]}, {"resources": []}]}

    arguments = {"expected": {"a": {}}, "namespace": "ns", "timeout": 0, "elsewhere": False}
    found = action(gpu_chart_wait, "gpu_chart_wait", arguments)
    found._execute_module = execute
    assert "failed" not in found.run(task_vars={})
    pods = {"verb": "read", "kind": "Pod", "namespace": "ns", "field_selectors": ["spec.nodeName=a"]}
    assert asked == [{"verb": "read", "kind": "Node", "name": "a"}, pods]


def test_must_remain_ready(clock: Clock) -> None:
    assert "failed" not in wait(READY, NOT_YET, READY, settle=10)
    assert clock.now == 117.0


def test_zero_seconds_read_once(clock: Clock) -> None:
    result = wait(NOT_YET, timeout=0)
    assert result["failed"] and clock.now == 100.0 and clock.shown == []
