# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_chart_compare."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_compare
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_check, device_jobs
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.build import ChartPlan, DrainedChange
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_check import Checked
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.device_jobs import PodDevice
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.objects import Object
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
SETTINGS = {"namespace": "ns", "release": "plugin", "mig_strategy": "mixed"}
EXPECTED = ExpectedNode({"nvidia.com/gpu": 7})
PLAN = ChartPlan(
    chart_values={},
    method="helm_chart",
    helm_chart=Object({"kind": "HelmChart", "metadata": {"name": "plugin"}}, "device_plugin_*", True),
    objects=[Object({"kind": "Namespace", "metadata": {"name": "ns"}}, "device_plugin_namespace", True)],
    pods_runtime_class="nvidia",
    has_gfd=True,
    labels=[],
    retry=[],
    removed=[],
    plugin_labels=[],
    stale=[],
    expected={"a": EXPECTED},
    while_drained={},
)
CHANGE = DrainedChange([], [], [], {"b": EXPECTED}, ["its layout has not been applied"])
READY, NOT_YET = node("a", {"nvidia.com/gpu": "7"}), node("a")
UNREADY = "a: advertises no GPUs, should advertise nvidia.com/gpu: 7"
CHECKED = Checked([PodDevice("a", "nvidia.com/gpu", "MIG-1")], ["a device is missing"], ["1 GPU was not checked"])


class Run:
    """A comparison of a cluster with one node, and how the GPUs were checked with pods."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: t.List[t.Any] = []
        self.shown: t.List[str] = []
        self.read: t.List[Data] = []
        monkeypatch.setattr(device_check, "check_devices", lambda _api, *given: self.pods.append(given) or CHECKED)
        monkeypatch.setattr(gpu_chart_compare, "show", self.shown.append)

    def __call__(
        self,
        item: Data,
        check_mode: bool = False,
        plan: t.Optional[ChartPlan] = PLAN,
        problems: t.Optional[t.Dict[str, t.List[str]]] = None,
        missing: bool = False,
        **given: t.Any,
    ) -> Data:
        arguments = {"server": "server-1", "check_pods": True, "image": "i", "timeout": 20, **given}
        planned = Planned(problems or {}, [], plan, missing, SETTINGS).serialized()
        found = action(gpu_chart_compare, "gpu_chart_compare", {"plan": planned, **arguments})
        found._task.check_mode = check_mode

        def execute(module_args: Data, **_others: t.Any) -> Data:
            self.read += module_args["requests"]
            items = {"Node": [item], "Pod": []}
            return {"results": [{"resources": items[each["kind"]]} for each in module_args["requests"]]}

        found._execute_module = execute
        result: Data = found.run(task_vars={"ansible_play_hosts": ["a", "b"]})
        assert not result["changed"] and "failed" not in result
        return result


@pytest.fixture(name="run")
def fixture_run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_pods_check_the_gpus_of_nodes_that_are_ready(run: Run) -> None:
    result = run(READY)
    ((expected, options, _show),) = run.pods
    assert expected == PLAN.expected
    assert options == device_jobs.JobOptions("mixed", True, "ns", "nvidia", "i", 20)
    assert result["problems"] == {"a": ["a device is missing"], "b": []}
    assert result["devices"] == [{"node": "a", "resource": "nvidia.com/gpu", "uuid": "MIG-1"}]
    assert result["warnings"] == ["1 GPU was not checked"]
    assert run.shown == ["a: a pod with one nvidia.com/gpu got MIG-1"]


@pytest.mark.parametrize("given", [{"check_pods": False}, {"check_mode": True}])
def test_the_gpus_are_not_checked_with_pods(run: Run, given: Data) -> None:
    assert run(READY, **given)["problems"] == {"a": [], "b": []} and run.pods == []


@pytest.mark.parametrize(("managed", "playbook"), [(False, "site.yml"), (True, "managed_cluster.yml")])
def test_differences_of_objects_chart_and_nodes(run: Run, managed: bool, playbook: str) -> None:
    namespace = PLAN.objects[0]._replace(is_current=False)
    result = run(NOT_YET, plan=PLAN._replace(objects=[namespace]), helm_changes=True, managed=managed)
    differs = "the cluster does not match the variables: %s. Run " + playbook
    assert result["problems"] == {"a": [differs % str(namespace), differs % "Helm release plugin", UNREADY], "b": []}
    assert run.pods == []


@pytest.mark.parametrize("method", ["helm", "helm_chart"])
def test_an_installation_job_of_a_helm_controller_is_read(run: Run, method: str) -> None:
    run(READY, plan=PLAN._replace(method=method))
    jobs = [each for each in run.read if each.get("namespace") == "kube-system"]
    assert [each["label_selectors"] for each in jobs] == (
        [["helmcharts.helm.cattle.io/chart=plugin"]] if method == "helm_chart" else []
    )


def test_a_host_that_changes_while_drained_has_its_own_differences(run: Run) -> None:
    problems = run(READY, plan=PLAN._replace(while_drained={"b": CHANGE}), check_pods=False)["problems"]
    assert problems == {"a": [], "b": ["its layout has not been applied"]}


def test_without_a_plan_only_its_problems_are_reported(run: Run) -> None:
    problems = run(READY, problems={"b": ["no"]})["problems"]
    assert problems == {"a": [], "b": ["no"]}
    text = "the cluster cannot be read, because server-1 has no Kubernetes client. Run site.yml"
    problems = run(READY, plan=None, missing=True)["problems"]
    assert problems == {"a": [text], "b": []} and run.read == run.pods == []
