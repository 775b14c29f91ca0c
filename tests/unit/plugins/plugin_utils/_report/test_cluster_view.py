# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster's view: nodes of hosts, resources, pods, and nodes out of service."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.runs import Run
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record
from ansible_collections.gpufleet.node.plugins.plugin_utils._report import build
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.cluster_view import Settings
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import ClusterReport
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import (
    INSTANCES,
    process,
    read,
    report,
    state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import (
    node,
    patched,
    pod,
    user,
)

OFFERED = {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "2"}
DEFAULT = Settings()
RUN = Run("controller 4026531836 aa", 4711, "1", 1795881600)


def viewed(*nodes, pods=(), settings=DEFAULT, **hosts):
    found = {name: read(name, result) for name, result in (hosts or {"gpu1": state()}).items()}
    return build.report(found, build.cluster(found, [list(nodes), list(pods)], settings))


def texts(found, host="gpu1"):
    return [problem.text for problem in found.hosts[host].problems]


def test_a_node_that_matches_has_no_problem_and_its_resources():
    found = viewed(node("gpu1", OFFERED))
    assert texts(found) == []
    assert found.hosts["gpu1"].node == "gpu1"
    shown = found.cluster.nodes["gpu1"]
    assert shown["allocatable"] == shown["expected"] == {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1}
    assert (shown["requested"], shown["out_of_service"], shown["host"]) == ({}, None, "gpu1")


def test_pods_are_those_that_request_gpus_or_have_processes_on_them():
    busy = state(gpu(0, *INSTANCES, processes=[process(7, 2, pod="exporter")]))
    pods = [user("train", gpus=2), pod("exporter", "a"), pod("other", "a"), user("done", gpus=1)]
    pods[1]["metadata"]["uid"] = "exporter"
    pods[3]["status"]["phase"] = "Succeeded"
    found = viewed(node("a", OFFERED), pods=pods, a=busy).cluster.nodes["a"]
    assert [each["name"] for each in found["pods"]] == ["train", "exporter"]
    assert found["requested"] == {"nvidia.com/mig-1g.10gb": 2}


def test_devices_of_resource_claims_are_unknown():
    claiming = user("claiming", nodeName="gpu1", resourceClaims=[{"name": "gpu"}])
    shown = viewed(node("gpu1"), pods=[claiming], settings=Settings(resources=False)).cluster.nodes["gpu1"]
    assert (shown["requested"], shown["pods_with_claims"]) == ({}, 1)


def test_differences_are_problems():
    assert "the cluster has no node named gpu1" in texts(viewed(node("other")))[0]
    (wrong,) = texts(viewed(node("gpu1", {"nvidia.com/gpu": "1"})))
    assert wrong.startswith("its node advertises nvidia.com/gpu: 1, should advertise nvidia.com/mig-1g.10gb: 2, ")
    assert wrong.endswith(" with the MIG strategy mixed")
    assert texts(viewed(node("gpu1", OFFERED, ready=False))) == ["its node is not ready"]
    failed = node("gpu1", OFFERED, **{"nvidia.com/mig.config": "seven", "nvidia.com/mig.config.state": "failed"})
    assert texts(viewed(failed)) == ["the MIG manager could not apply seven"]


def test_resources_that_are_unknown_are_not_compared():
    found = viewed(node("gpu1"), settings=Settings(resources=False))
    assert texts(found) == []
    assert "DRA" in found.cluster.nodes["gpu1"]["expected_unknown"]
    down = viewed(node("gpu1"), gpu1={"unreachable": True, "msg": "timed out"})
    assert [problem.kind for problem in down.hosts["gpu1"].problems] == ["unreachable"]
    assert down.cluster.nodes["gpu1"]["expected"] is None


def test_who_has_taken_a_node_out_of_service():
    cordoned = {**node("gpu1", OFFERED), "spec": {"unschedulable": True}}
    assert texts(viewed(cordoned)) == ["its node is out of service by someone else, who cordoned it"]
    drained = patched(node("gpu1", OFFERED), record.cordon(node("gpu1"), RUN))
    (text,) = texts(viewed(drained))
    assert text.startswith("its node is out of service by a run of this collection, process 4711 on controller, since ")
    damaged = node("gpu1", OFFERED)
    damaged["metadata"]["annotations"] = {record.RECORD: "{"}
    assert "is damaged" in texts(viewed(damaged))[0]


def test_a_node_that_advertises_gpus_which_its_host_has_lost():
    without = state(nvidia={"gpus": []})
    found = viewed(node("gpu1", {"nvidia.com/gpu": "8"}), node("cpu"), gpu1=without, cpu=without)
    (text,) = texts(found)
    assert text.startswith("its node advertises nvidia.com/gpu: 8, should advertise no GPUs")
    assert texts(found, "cpu") == [] and list(found.cluster.nodes) == ["gpu1"]


def test_gpu_nodes_outside_the_inventory_are_shown_without_host():
    found = viewed(node("gpu1", OFFERED), node("stray", {"nvidia.com/gpu": "8"}), node("cpu")).cluster
    assert {name: shown["host"] for name, shown in found.nodes.items()} == {"gpu1": "gpu1", "stray": None}


def test_a_cluster_that_cannot_be_read_is_no_empty_cluster():
    assert report(read(), cluster=ClusterReport(error="refused")).cluster == ClusterReport({}, "refused")
    assert report(read()).cluster is None
