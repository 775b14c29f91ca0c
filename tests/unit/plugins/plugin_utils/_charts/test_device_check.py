# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The jobs that check devices with pods."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_check, device_jobs
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_check import Checked
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_jobs import JobOptions
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, pod

Data = t.Dict[str, t.Any]
NODE = node("a", **{"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "x"})
OPTIONS = JobOptions("single", has_gfd=True, namespace="ns", runtime_class="nvidia", image="i", timeout=20)


@pytest.fixture(name="clock", autouse=True)
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> t.List[float]:
    """Time that passes only while the check sleeps."""
    now = [100.0]
    monkeypatch.setattr(device_check.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(device_check.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


class Api:
    """A cluster that starts the pods of each job. Each pod has the next log."""

    def __init__(self, *logs: str, nodes: t.Sequence[Data] = (NODE,), phase: str = "Running") -> None:
        self.logs, self.nodes, self.phase = logs, list(nodes), phase
        self.classes: t.List[Data] = [{}]
        self.pods: t.List[Data] = []  # of the jobs
        self.others: t.List[Data] = []
        self.done: t.List[str] = []
        self.fails = ""
        self.state: Data = {}  # of the containers

    def step(self, name: str) -> None:
        self.done.append(name)
        if name == self.fails:
            raise Unreadable("Connection refused")

    def call(self, module: str, **arguments: t.Any) -> Data:
        if arguments.get("state") == "absent":
            self.step("absent")
            selected = self.selected(arguments["label_selectors"])
            self.pods = [each for each in self.pods if each not in selected]
            return {}
        self.step("create")
        job = arguments["resource_definition"][0]
        for number, _log in enumerate(self.logs):
            self.pods.append(pod("pod-%d" % number, "a"))
            self.pods[-1]["metadata"].update(job["spec"]["template"]["metadata"])
            self.pods[-1]["status"]["phase"] = self.phase
            self.pods[-1]["status"]["containerStatuses"] = [{"name": "list", "state": self.state}]
        assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
        return {}

    def log(self, _namespace: str, name: str) -> str:
        return self.logs[int(name[-1])]

    def read(self, *wanted: Data) -> t.List[t.List[Data]]:
        return [self.items(**each) for each in wanted]

    def items(self, kind: str, label_selectors: t.Sequence[str] = (), **_options: str) -> t.List[Data]:
        self.step(kind)
        if kind == "Node":
            return [self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]]
        if kind == "RuntimeClass":
            return self.classes
        return self.selected(label_selectors) if label_selectors else self.others

    def selected(self, label_selectors: t.Sequence[str]) -> t.List[Data]:
        wanted = dict(each.split("=") for each in label_selectors)
        return [each for each in self.pods if wanted.items() <= each["metadata"]["labels"].items()]


def check(
    api: Api, options: JobOptions = OPTIONS, show: t.Callable[[str], object] = str, **others: ExpectedNode
) -> Checked:
    expected = {"a": ExpectedNode({"nvidia.com/gpu": 2}), **others}
    return device_check.check_devices(t.cast(t.Any, api), expected, options, show)


def mig(uuid: str) -> str:
    return "GPU 0: A100 (UUID: GPU-1)\n  MIG 1g.10gb Device 0: (UUID: %s)" % uuid


def test_each_device_is_checked_and_the_pods_are_removed(clock: t.List[float]) -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    result = check(api)
    assert result.problems == [] and result.unchecked == []
    assert [each.uuid for each in result.devices] == ["MIG-1", "MIG-2"]
    assert (api.done[-1], api.pods, clock[0]) == ("absent", [], 100.0)


def test_the_pods_of_another_check_are_ignored() -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    other = pod("pod-9", "a")
    other["metadata"]["labels"] = {device_jobs.LABEL: "other"}
    api.pods.append(other)
    assert check(api).problems == [] and api.pods == [other]


def test_the_labels_may_come_later(clock: t.List[float]) -> None:
    assert check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a"), NODE])).problems == []
    assert clock[0] == 101.0
    assert check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a")]), OPTIONS._replace(has_gfd=False)).problems == []
    assert len(check(Api(mig("MIG-1"), mig("MIG-2"), nodes=[node("a")])).problems) == 2


def test_pods_without_output_are_a_problem(clock: t.List[float]) -> None:
    shown: t.List[str] = []
    (problem,) = check(Api(mig("MIG-1"), ""), show=shown.append).problems
    assert problem == "a: 1 of 2 pods with nvidia.com/gpu have listed their devices"
    assert shown == ["checking GPUs with pods, 20 s left: " + problem]
    assert clock[0] == 122.0


def test_the_wait_shows_why_pods_do_not_start() -> None:
    api, shown = Api("", "", phase="Pending"), t.cast("t.List[str]", [])
    api.state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    check(api, show=shown.append)
    assert shown == [
        "checking GPUs with pods, 20 s left: a: 0 of 2 pods with nvidia.com/gpu have listed their devices; "
        "container list of pod pod-0: ImagePullBackOff: no such image"
    ]


def test_a_failed_pod_ends_the_wait(clock: t.List[float]) -> None:
    problems = check(Api("sh: nvidia-smi: not found", "", phase="Failed")).problems
    assert any(
        "should list one device, but nvidia-smi -L printed: sh: nvidia-smi: not found" in each for each in problems
    )
    assert clock[0] == 100.0


def test_no_runtime_class() -> None:
    api = Api()
    api.classes = []
    assert check(api).problems == ["the cluster has no RuntimeClass nvidia, which pods need to use GPUs"]
    assert "create" not in api.done


def test_devices_in_use_are_not_checked() -> None:
    api = Api()
    api.others = [pod("user", "a")]
    api.others[0]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    result = check(api)
    assert result.unchecked == ["2 GPUs or MIG devices were not checked, because pods use them"]
    assert result.problems == [] and "create" not in api.done


def test_a_warning_about_nodes_whose_resources_are_unknown() -> None:
    result = check(Api(mig("MIG-1"), mig("MIG-2")), b=ExpectedNode(None))
    assert len(result.devices) == 2 and result.problems == []
    assert result.unchecked == [
        "the GPUs of node b were not checked with pods, because the resources that it should advertise are unknown"
    ]


@pytest.mark.parametrize("step", ["create", "Node", "Pod"])
def test_pods_are_removed_after_an_error(step: str) -> None:
    api = Api(mig("MIG-1"), mig("MIG-2"))
    api.fails = step
    assert check(api).problems == ["the GPUs could not be checked with pods: Connection refused"]
    assert api.done[-1] == "absent" or step == "Pod"  # before there are any


def test_pods_that_cannot_be_removed_hide_no_problem() -> None:
    api = Api(mig("MIG-1"), "")
    api.fails = "absent"
    missing, failed = check(api).problems
    assert missing == "a: 1 of 2 pods with nvidia.com/gpu have listed their devices"
    assert failed == "the GPUs could not be checked with pods: Connection refused"
