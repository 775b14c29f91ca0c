# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_chart_compare."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_compare
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_check, device_jobs
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_check import Checked
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_jobs import Device
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
PLAN: Data = {
    "problems": {},
    "missing": False,
    "settings": {"namespace": "ns", "release": "plugin", "mig_strategy": "mixed"},
    "method": "helm_chart",
    "outdated": [],
    "expected": {"a": {"resources": {"nvidia.com/gpu": 7}}},
    "pending": {},
    "has_gfd": True,
    "pods_runtime_class": "nvidia",
}
READY, NOT_YET = node("a", {"nvidia.com/gpu": "7"}), node("a")
UNREADY = "a: advertises no GPUs, should advertise nvidia.com/gpu: 7"
CHECKED = Checked([Device("a", "nvidia.com/gpu", "MIG-1")], ["a device is missing"], "1 GPU was not checked")


class Run:
    """A comparison of a cluster with one node, and how the GPUs were checked with pods."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: t.List[t.Any] = []
        self.shown: t.List[str] = []
        self.read: t.List[Data] = []
        monkeypatch.setattr(device_check, "check", lambda _api, *given: self.pods.append(given) or CHECKED)
        monkeypatch.setattr(gpu_chart_compare, "show", self.shown.append)

    def __call__(self, item: Data, check_mode: bool = False, plan: Data = PLAN, **given: t.Any) -> Data:
        arguments = {"server": "server-1", "check_pods": True, "image": "i", "timeout": 20, **given}
        found = action(gpu_chart_compare, "gpu_chart_compare", {"plan": plan, **arguments})
        found._task.check_mode = check_mode

        def execute(module_args: Data, **_others: t.Any) -> Data:
            self.read += module_args["objects"]
            items = {"Node": [item], "Pod": []}
            return {"results": [{"resources": items[each["kind"]]} for each in module_args["objects"]]}

        found._execute_module = execute
        result: Data = found.run(task_vars={"ansible_play_hosts": ["a", "b"]})
        assert not result["changed"] and "failed" not in result
        return result


@pytest.fixture(name="run")
def fixture_run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_pods_check_the_gpus_of_nodes_that_are_ready(run: Run) -> None:
    result = run(READY)
    ((expected, options),) = run.pods
    assert expected == {"a": ExpectedNode({"nvidia.com/gpu": 7})}
    assert options == device_jobs.Options("mixed", True, "ns", "nvidia", "i", 20)
    assert result["problems"] == {"a": ["a device is missing"], "b": []}
    assert result["devices"] == [{"node": "a", "resource": "nvidia.com/gpu", "uuid": "MIG-1"}]
    assert result["warnings"] == ["1 GPU was not checked"]
    assert run.shown == ["a: a pod with one nvidia.com/gpu got MIG-1"]


@pytest.mark.parametrize("given", [{"check_pods": False}, {"check_mode": True}])
def test_the_gpus_are_not_checked_with_pods(run: Run, given: Data) -> None:
    assert run(READY, **given)["problems"] == {"a": [], "b": []} and run.pods == []


@pytest.mark.parametrize(("managed", "playbook"), [(False, "site.yml"), (True, "managed_cluster.yml")])
def test_differences_of_objects_chart_and_nodes(run: Run, managed: bool, playbook: str) -> None:
    result = run(NOT_YET, plan={**PLAN, "outdated": ["namespace"]}, helm_changes=True, managed=managed)
    differs = "the cluster does not match the variables: %s. Run " + playbook
    assert result["problems"] == {"a": [differs % "namespace", differs % "Helm release plugin", UNREADY], "b": []}
    assert run.pods == []


@pytest.mark.parametrize("method", ["helm", "helm_chart"])
def test_an_installation_job_of_a_helm_controller_is_read(run: Run, method: str) -> None:
    run(READY, plan={**PLAN, "method": method})
    jobs = [each for each in run.read if each.get("namespace") == "kube-system"]
    assert [each["label_selectors"] for each in jobs] == (
        [["helmcharts.helm.cattle.io/chart=plugin"]] if method == "helm_chart" else []
    )


def test_a_host_whose_change_is_pending_has_its_own_differences(run: Run) -> None:
    plan = {**PLAN, "pending": {"b": {"differences": ["its layout has not been applied"]}}}
    problems = run(READY, plan=plan, check_pods=False)["problems"]
    assert problems == {"a": [], "b": ["its layout has not been applied"]}


def test_without_a_plan_only_its_problems_are_reported(run: Run) -> None:
    problems = run(READY, plan={"problems": {"b": ["no"]}, "missing": False})["problems"]
    assert problems == {"a": [], "b": ["no"]}
    text = "the cluster cannot be read, because server-1 has no Kubernetes client. Run site.yml"
    problems = run(READY, plan={"problems": {}, "missing": True})["problems"]
    assert problems == {"a": [text], "b": []} and run.read == run.pods == []
