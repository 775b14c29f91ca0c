# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that list their devices."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_jobs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import pod

Data = t.Dict[str, t.Any]
OPTIONS = device_jobs.JobOptions(
    "mixed", has_gfd=True, namespace="ns", runtime_class="nvidia", image="image", timeout=300
)
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def jobs(expected: t.Mapping[str, t.Mapping[str, int]], *pods: Data) -> t.List[Data]:
    return device_jobs.check_jobs({name: ExpectedNode(each) for name, each in expected.items()}, pods, "check", OPTIONS)


def user(on: str, resource: str, count: str, phase: str = "Running") -> Data:
    out = pod("user", on)
    out["spec"]["containers"][0]["resources"] = {"limits": {resource: count, "cpu": "500m"}}
    out["status"]["phase"] = phase
    return out


def ran(name: str, on: str = "a", resource: str = MIG) -> Data:
    out = pod(name, on)
    out["metadata"]["annotations"] = {device_jobs.NODE: on, device_jobs.RESOURCE: resource}
    return out


def log(*migs: str, gpu: str = "GPU-1") -> str:
    lines = ["GPU 0: NVIDIA A100 (UUID: %s)" % gpu]
    return "\n".join(lines + ["  MIG 1g.10gb     Device  0: (UUID: %s)" % mig for mig in migs])


def test_a_job_for_each_resource_of_each_node() -> None:
    made = jobs({"b": {GPU: 2}, "a": {MIG: 3, GPU: 1}, "c": {}})
    placed = [(job["metadata"]["annotations"][device_jobs.NODE], job["spec"]["parallelism"]) for job in made]
    assert placed == [("a", 1), ("a", 3), ("b", 2)]
    assert len({job["metadata"]["name"] for job in made}) == 3
    spec = made[1]["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "0", "memory": "0"},
        "limits": {"cpu": "1", "memory": "256Mi", MIG: 1},
    }
    assert (spec["runtimeClassName"], spec["containers"][0]["image"]) == ("nvidia", "image")
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == ["a"]


def test_the_cluster_removes_a_job_without_the_controller() -> None:
    spec = jobs({"a": {GPU: 1}})[0]["spec"]
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"], spec["backoffLimit"]) == (360, 60, 0)


def test_pods_have_no_privileges() -> None:
    """The level "restricted" of the Pod Security Standards; and none of the token of the namespace's account."""
    spec = jobs({"a": {GPU: 1}})[0]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["automountServiceAccountToken"] is False


def test_the_default_runtime_needs_no_class() -> None:
    (job,) = device_jobs.check_jobs({"a": ExpectedNode({GPU: 1})}, [], "check", OPTIONS._replace(runtime_class=""))
    assert "runtimeClassName" not in job["spec"]["template"]["spec"]


def test_devices_in_use_are_left_alone() -> None:
    expected = {"a": {MIG: 3}, "b": {MIG: 3}}
    used = [user("a", MIG, "1"), user("a", MIG, "1"), user("b", MIG, "3"), user("a", MIG, "1", "Succeeded"), pod("x")]
    (job,) = jobs(expected, *used)
    assert (job["metadata"]["annotations"][device_jobs.NODE], job["spec"]["completions"]) == ("a", 1)


def test_all_pods_must_have_listed_devices() -> None:
    (job,) = jobs({"a": {MIG: 2}})
    pods = [ran("p"), ran("q")]
    expected = "a: 1 of 2 pods with %s have listed their devices" % MIG
    assert device_jobs.jobs_without_result([job], pods, {"p": log("MIG-1"), "q": "No devices found"}) == [expected]
    assert device_jobs.jobs_without_result([job], pods, {"p": log("MIG-1"), "q": log("MIG-2")}) == []
    assert device_jobs.jobs_without_result(
        [job], [ran("p"), ran("q", "b")], {"p": log("MIG-1"), "q": log("MIG-2")}
    ) == [expected]


def test_each_pod_gets_another_device() -> None:
    logs = {"p": log("MIG-1"), "q": log("MIG-2"), "r": log("MIG-2", gpu="GPU-2")}
    found, problems = device_jobs.listed_devices([ran("p"), ran("q")], logs, {}, "mixed")
    assert ([each.uuid for each in found], problems) == (["MIG-1", "MIG-2"], [])
    _found, problems = device_jobs.listed_devices([ran("p"), ran("q"), ran("r", "b")], logs, {}, "mixed")
    assert problems == ["%s: 2 pods got the same device MIG-2" % name for name in "ab"]


def test_pods_share_a_device_that_is_shared() -> None:
    pods, logs = [ran("p"), ran("q"), ran("r")], dict.fromkeys("pqr", log("MIG-1"))
    assert device_jobs.listed_devices(pods, logs, {"a": ExpectedNode(replicas={MIG: 3})}, "mixed")[1] == []
    assert device_jobs.listed_devices(pods, logs, {"a": ExpectedNode(replicas={MIG: 2})}, "mixed")[1] == [
        "a: 3 pods got the same device MIG-1"
    ]


@pytest.mark.parametrize(
    ("resource", "strategy", "output", "uuid"),
    [
        (MIG, "mixed", log("MIG-1"), "MIG-1"),
        (GPU, "single", log("MIG-1"), "MIG-1"),
        (GPU, "mixed", log(), "GPU-1"),
        (GPU, "none", log("MIG-1", "MIG-2"), "GPU-1"),
        (MIG, "mixed", log("MIG-GPU-1/7/0"), "MIG-GPU-1/7/0"),  # drivers before 470
        (MIG, "mixed", log("MIG-1", "MIG-2"), ""),
        (MIG, "mixed", log(), ""),
        (GPU, "single", log("MIG-1", "MIG-2"), ""),
        (GPU, "mixed", log() + "\n" + log(gpu="GPU-2"), ""),
        (GPU, "none", "sh: nvidia-smi: not found", ""),
    ],
)
def test_the_device_of_a_pod(resource: str, strategy: str, output: str, uuid: str) -> None:
    found, problems = device_jobs.listed_devices([ran("p", resource=resource)], {"p": output}, {}, strategy)
    assert [each.uuid for each in found] == [uuid] * bool(uuid)
    assert bool(problems) != bool(uuid)


def test_a_pod_needs_a_mig_device_if_the_node_has_a_profile() -> None:
    """With the strategy single, the resource does not show it."""
    (problem,) = device_jobs.listed_devices(
        [ran("p", resource=GPU)], {"p": log()}, {"a": ExpectedNode(profile="7g.40gb")}, "single"
    )[1]
    assert "should list one device" in problem
