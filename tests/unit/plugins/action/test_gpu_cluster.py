# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins gpu_cluster_plan, gpu_cluster_wait and gpu_cluster_check."""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_check, gpu_cluster_plan, gpu_cluster_wait
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import pod_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress
from ansible_collections.gpufleet.node.tests.unit.plugins.action.actions import action, host
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes import node, pod, waiting

Data = t.Dict[str, t.Any]


@pytest.fixture(name="helm", autouse=True)
def fixture_helm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cluster_plan.shutil, "which", lambda name: "/usr/bin/" + name)


def plan(
    hosts: t.Sequence[Data],
    nodes: t.Optional[t.Sequence[str]] = None,
    failed: t.Sequence[Data] = (),
    helm_controller: bool = False,
    allowed: bool = True,
    **arguments: t.Any,
) -> Data:
    names = [each["inventory_hostname"] for each in hosts]
    found = action(gpu_cluster_plan, "gpu_cluster_plan", {"role": "gpu_operator", **arguments})

    def execute(module_name: str, module_args: Data, **_others: t.Any) -> Data:
        if module_name == "kubernetes.core.k8s":
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
                for each in module_args["objects"]
            ]
        }

    found._execute_module = execute
    hostvars = {each["inventory_hostname"]: each for each in [*hosts, *failed]}
    plays = {"ansible_play_hosts": names, "ansible_play_hosts_all": list(hostvars)}
    result: Data = found.run(task_vars={**hosts[0], "hostvars": hostvars, **plays})
    return result


def test_a_plan_for_two_hosts() -> None:
    result = plan([host("a", gpu_operator_version="v26.7.0"), host("b", gpu_operator_version="v26.7.0")])
    assert (result["changed"], result["problems"], result["missing"]) == (False, {}, False)
    assert sorted(result["plan"]["wanted"]) == ["a", "b"]
    assert result["settings"]["namespace"] == "gpu-operator"
    chart = result["plan"]["helm_chart"]
    assert (chart["chart"], chart["version"]) == ("gpu-operator", "v26.7.0")
    assert all(chart.values())  # helm-controller removes empty keys, and null is not allowed


@pytest.mark.parametrize("nvidia", [5, [], "x", {"gpus": 5}, {"gpus": "x"}, {"gpus": [1]}, {"gpus": [{"mig": 1}]}])
def test_malformed_facts_do_not_stop_the_plan_for_other_hosts(nvidia: object) -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["ansible_facts"]["nvidia"] = nvidia
    assert sorted(plan(hosts)["plan"]["wanted"]) == ["a", "b"]


@pytest.mark.parametrize("changed", ["x", [1], {"a": 1}, 10**400])
def test_a_malformed_time_does_not_stop_the_plan_for_other_hosts(changed: object) -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["gpu_cluster_mig_changed"] = changed
    assert sorted(plan(hosts)["plan"]["wanted"]) == ["a", "b"]


def test_facts_that_replace_variables() -> None:
    hosts = [host(name, gpu_operator_version="v26.7.0") for name in "ab"]
    hosts[1]["ansible_facts"]["gpu_cluster_node_name"] = "server-1"
    result = plan(hosts)
    assert result["plan"] == {}
    assert any("facts with the names of variables" in problem for problem in result["problems"]["b"])


def test_helm_is_needed_on_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cluster_plan.shutil, "which", lambda _name: None)
    hosts = [host("a", gpu_operator_version="v26.7.0")]
    result = plan(hosts)
    assert result["plan"] == {} and result["problems"]["a"][0].startswith("the controller lacks the command helm")
    assert plan(hosts, on_controller=False)["problems"] == {}
    assert plan(hosts, helm_controller=True)["problems"] == {}


def test_all_permissions_are_reviewed() -> None:
    (problem,) = plan([host("a", gpu_operator_version="v26.7.0")], allowed=False)["problems"]["a"]
    assert "create namespaces, patch namespaces, get nodes, patch nodes, create runtimeclasses" in problem


def test_names_of_nodes() -> None:
    first = host("a", gpu_operator_version="v26.7.0", gpu_cluster_node_name="node-1")
    second = host("b", gpu_operator_version="v26.7.0", rke2_node_name="node-2")
    assert sorted(plan([first, second], ["node-1", "node-2"])["plan"]["wanted"]) == ["node-1", "node-2"]


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
    assert result["problems"] == {} and result["plan"]["configs"]


def test_the_values_of_the_chart_also_depend_on_hosts_that_failed_before() -> None:
    """Otherwise verify would report a difference."""
    values = {"gpu_operator_version": "v26.7.0", "gpu_operator_mig_strategy": "none"}
    failed, other = host("a", **values), {**host("b", **values), "nvidia_mig_layout": None}
    assert plan([other], failed=[failed])["plan"]["values"] == plan([failed, other])["plan"]["values"]
    assert plan([other])["plan"]["values"] != plan([failed, other])["plan"]["values"]


def test_a_chart_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chart.tgz").write_bytes(b"archive")
    finds = lambda _action, folder, name: str(tmp_path / name) if folder == "files" else ""  # noqa: E731
    monkeypatch.setattr(gpu_cluster_plan.ActionModule, "_find_needle", finds)
    found = plan([host("a", gpu_operator_version="v26.7.0", gpu_operator_chart_file="chart.tgz")])
    assert base64.b64decode(found["plan"]["helm_chart"]["chartContent"]) == b"archive"


class Clock:
    """Time that passes only while the action sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.shown: t.List[str] = []
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(progress.time, "sleep", self.sleep)
        monkeypatch.setattr(gpu_cluster_check, "show", self.shown.append)
        monkeypatch.setattr(gpu_cluster_wait, "show", self.shown.append)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def wait(*readings: t.Any, log: t.Sequence[str] = (), **arguments: t.Any) -> Data:
    """Run the action. Each reading is a node with an optional list of pods, or an error message."""
    left = list(readings)
    given = {"wanted": {"a": {"resources": {"nvidia.com/gpu": 7}}}, "namespace": "ns", "timeout": 60, **arguments}
    found = action(gpu_cluster_wait, "gpu_cluster_wait", given)

    def execute(module_name: str, module_args: Data, task_vars: object) -> Data:
        if module_name == "kubernetes.core.k8s_log":
            return {"log": "\n".join(log)}
        reading = left[0]
        if isinstance(reading, str):
            left.pop(0)
            return {"failed": True, "msg": reading}
        if len(left) > 1:
            left.pop(0)
        assert [each["kind"] for each in module_args["objects"]] == ["Node", "Pod"]
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
    result = wait((node("a", **labels), [manager]), wanted={"a": {"config": "x"}}, log=["why"])
    assert clock.now == 100.0
    assert result["problems"] == ["a: the MIG manager could not apply x"]
    assert result["msg"].endswith("Last lines of the log of container main of pod manager-1:\n  why")


def test_reads_one_node_and_its_pods(clock: Clock) -> None:
    asked: t.List[t.Any] = []

    def execute(module_name: str, module_args: Data, task_vars: object) -> Data:
        asked.extend(module_args["objects"])
        return {"results": [{"resources": [READY[0]]}, {"resources": []}]}

    arguments = {"wanted": {"a": {}}, "namespace": "ns", "timeout": 0, "elsewhere": False}
    found = action(gpu_cluster_wait, "gpu_cluster_wait", arguments)
    found._execute_module = execute
    assert "failed" not in found.run(task_vars={})
    pods = {"kind": "Pod", "namespace": "ns", "field_selectors": ["spec.nodeName=a"]}
    assert asked == [{"kind": "Node", "name": "a"}, pods]


def test_must_remain_ready(clock: Clock) -> None:
    assert "failed" not in wait(READY, NOT_YET, READY, settle=10)
    assert clock.now == 117.0


def test_zero_seconds_read_once(clock: Clock) -> None:
    result = wait(NOT_YET, timeout=0)
    assert result["failed"] and clock.now == 100.0 and clock.shown == []


GONE: Data = {"failed": True, "msg": "Connection refused"}
NODE = node("a", **{"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "x"})


class Api:
    """A cluster that starts the pods of each job. Each pod has the next log."""

    def __init__(self, *logs: str, nodes: t.Sequence[Data] = (NODE,), phase: str = "Running") -> None:
        self.logs, self.nodes, self.phase = logs, list(nodes), phase
        self.classes: t.List[Data] = [{}]
        self.pods: t.List[Data] = []  # of the jobs
        self.others: t.List[Data] = []
        self.done: t.List[str] = []
        self.fail: t.Dict[str, Data] = {}

    def __call__(self, module_name: str, module_args: Data, task_vars: object) -> Data:
        if "objects" in module_args:
            results = [self.read(**each) for each in module_args["objects"]]
            return next((each for each in results if each.get("failed")), {"results": results})
        step = module_args.get("state") or module_name.rpartition(".")[2]
        self.done.append(step)
        if step in self.fail:
            return self.fail[step]
        if step == "k8s":
            job = module_args["resource_definition"][0]
            for number, _log in enumerate(self.logs):
                self.pods.append(pod("pod-%d" % number, "a"))
                self.pods[-1]["metadata"].update(job["spec"]["template"]["metadata"])
                self.pods[-1]["status"]["phase"] = self.phase
            assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
        elif step == "absent":
            selected = self.selected(module_args["label_selectors"])
            self.pods = [each for each in self.pods if each not in selected]
        else:
            return {"log": self.logs[int(module_args["name"][-1])]}
        return {}

    def read(self, kind: str, label_selectors: t.Sequence[str] = (), **_options: str) -> Data:
        self.done.append(kind)
        if kind in self.fail:
            return self.fail[kind]
        if kind == "Node":
            return {"resources": [self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]]}
        if kind == "RuntimeClass":
            return {"resources": self.classes}
        return {"resources": self.selected(label_selectors) if label_selectors else self.others}

    def selected(self, label_selectors: t.Sequence[str]) -> t.List[Data]:
        wanted = dict(each.split("=") for each in label_selectors)
        return [each for each in self.pods if wanted.items() <= each["metadata"]["labels"].items()]


def check(api: Api, **arguments: t.Any) -> Data:
    given: Data = {"wanted": {"a": {"resources": {"nvidia.com/gpu": 2}}}, "strategy": "single", "labels": True}
    given.update(namespace="ns", runtime_class="nvidia", image="i", timeout=20)
    found = action(gpu_cluster_check, "gpu_cluster_check", {**given, **arguments})
    found._execute_module = api
    result: Data = found.run(task_vars={})
    assert "failed" not in result
    return result


def mig(uuid: str) -> str:
    return "GPU 0: A100 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: %s)" % uuid


def test_each_device_is_checked_and_the_pods_are_removed(clock: Clock) -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    result = check(api)
    assert result["problems"] == [] and "warnings" not in result
    assert [each["uuid"] for each in result["devices"]] == ["MIG-1", "MIG-2"]
    assert (api.done[-1], api.pods, clock.now) == ("absent", [], 100.0)


def test_the_pods_of_another_check_are_ignored(clock: Clock) -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    other = pod("pod-9", "a")
    other["metadata"]["labels"] = {pod_check.LABEL: "other"}
    api.pods.append(other)
    assert check(api)["problems"] == [] and api.pods == [other]


def test_the_labels_may_come_later(clock: Clock) -> None:
    assert check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a"), NODE]))["problems"] == []
    assert clock.now == 101.0
    assert check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a")]), labels=False)["problems"] == []
    assert len(check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a")]))["problems"]) == 2


def test_pods_without_output_are_a_problem(clock: Clock) -> None:
    (problem,) = check(Api(mig("MIG-1"), ""))["problems"]
    assert problem == "a: 1 of 2 pods with nvidia.com/gpu have listed their devices"
    assert clock.now == 122.0


def test_a_failed_pod_ends_the_wait(clock: Clock) -> None:
    problems = check(Api("sh: nvidia-smi: not found", "", phase="Failed"))["problems"]
    assert any(
        "should list one device, but nvidia-smi -L printed: sh: nvidia-smi: not found" in each for each in problems
    )
    assert clock.now == 100.0


def test_no_runtime_class(clock: Clock) -> None:
    api = Api()
    api.classes = []
    assert check(api)["problems"] == ["the cluster has no RuntimeClass nvidia, which pods need to use GPUs"]
    assert "k8s" not in api.done


def test_devices_in_use_are_not_checked(clock: Clock) -> None:
    api = Api()
    api.others = [pod("user", "a")]
    api.others[0]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    result = check(api)
    assert result["warnings"] == ["2 GPUs or MIG devices were not checked, because pods use them"]
    assert result["problems"] == [] and "k8s" not in api.done


@pytest.mark.parametrize("step", ["k8s", "Node", "Pod"])
def test_pods_are_removed_after_an_error(clock: Clock, step: str) -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    api.fail[step] = GONE
    assert check(api)["problems"] == ["the GPUs could not be checked with pods: Connection refused"]
    assert api.done[-1] == "absent" or step == "Pod"  # before there are any
