# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains that are killed or disturbed at any point: what happened, and that the next run repairs it."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t

from conftest import DEPLOY, RECORD, Cluster

IN_SERVICE = "The node is in service, and its GPUs were not changed"


def kinds(cluster: Cluster) -> t.List[str]:
    """The writes of a run, with the last part of their paths."""
    return ["%s %s" % (each.split()[0], each.rpartition("/")[2]) for each in cluster.proxy.writes]


def test_a_drain(cluster: Cluster) -> None:
    cluster.create()
    output = cluster.run()
    assert "is out of service until this run returns it" in output
    # Cordoned; two evictions, of which the budget allowed the second later; paused; resumed; uncordoned.
    node = "PATCH " + cluster.node
    assert kinds(cluster) == [node, "POST eviction", "POST eviction", node, node, node]
    cluster.is_in_service()


def test_a_preview_evicts_no_pods(cluster: Cluster) -> None:
    """The API checks the evictions, of which the budget allows one at a time."""
    cluster.create()
    names = ["get", "pods", "--namespace", cluster.name, "--output=name"]
    before = cluster.plane.kubectl(*names)
    output = cluster.run("--check")
    assert "would evict %s/train-" % cluster.name in output and "rejected" not in output
    assert kinds(cluster) == ["POST eviction"] * 2
    assert cluster.plane.kubectl(*names) == before
    cluster.is_in_service()


def test_killed_after_any_write(cluster: Cluster) -> None:
    cluster.create()
    number = 1
    while cluster.killed(number):
        found = cluster.read()
        # The record is written and removed together with the cordon.
        assert (RECORD in found["metadata"].get("annotations", {})) is bool(found["spec"].get("unschedulable"))
        cluster.run()
        cluster.is_in_service()
        cluster.proxy.writes.clear()
        number += 1
    assert number > 4  # even without pods to evict


def test_an_api_server_that_is_away_for_a_minute(cluster: Cluster) -> None:
    """While pods are evicted, and while the node is returned, after writes whose responses are lost."""
    cluster.create()
    cluster.proxy.after_write = lambda count: cluster.proxy.drop({2: 60, 4: 5, 5: 5, 6: 5}.get(count, 0))
    output = cluster.run(seconds=120)
    assert "a request to the cluster failed" in output
    cluster.proxy.after_write = lambda _count: None
    cluster.is_in_service()


def test_a_budget_that_never_allows_an_eviction(cluster: Cluster) -> None:
    cluster.create()
    budget(cluster, 2)
    preview = " ".join(cluster.run("--check").split())
    assert "would be rejected now, and repeated for 60 seconds: pod %s/train-" % cluster.name in preview
    message = cluster.fails(seconds=5)
    assert "after 5 seconds, node %s is not drained: pod %s/train-" % (cluster.node, cluster.name) in message
    assert "The disruption budget train needs 2 healthy pods and has 2 currently" in message
    assert IN_SERVICE in message
    assert "POST eviction" not in kinds(cluster)
    cluster.is_in_service()


def test_a_pod_that_does_not_terminate(cluster: Cluster) -> None:
    cluster.create(finalizers=["example.com/hold"])
    message = cluster.fails(seconds=5)
    assert "is terminating (finalizers: example.com/hold)" in message and IN_SERVICE in message
    names = cluster.plane.kubectl("get", "pods", "-n", cluster.name, "-l", "app=train", "-o", "name").split()
    for name in names:
        cluster.plane.kubectl(
            "patch", name, "-n", cluster.name, "--type=merge", '-p={"metadata": {"finalizers": null}}'
        )
    cluster.is_in_service()


def test_a_node_that_is_not_ready_after_the_change(cluster: Cluster) -> None:
    cluster.create()
    message = cluster.fails(return_seconds=5, change=set_ready(cluster, "False"))
    assert "node %s is not ready, and remains cordoned: %s: the node is not ready" % ((cluster.node,) * 2) in message
    assert "kubectl uncordon %s && kubectl annotate node %s" % ((cluster.node,) * 2) in message
    assert cluster.read()["spec"]["unschedulable"]
    cluster.run(change=set_ready(cluster, "True"))
    cluster.is_in_service()


def test_a_change_that_fails(cluster: Cluster) -> None:
    cluster.create()
    message = cluster.fails(change="false")
    assert "its node is out of service until this is run again and succeeds" in message
    found = cluster.read()
    assert found["spec"]["unschedulable"] and found["metadata"]["labels"][DEPLOY + "device-plugin"] == "true"
    # Something else makes it impossible to drain the node again: it stays out of service.
    bare = ["run", "bare", "--image=x", "--overrides", '{"spec": {"nodeName": "%s"}}' % cluster.node]
    cluster.plane.kubectl(*bare, "--namespace=" + cluster.name)
    message = cluster.fails()
    assert "pod %s/bare has no controller" % cluster.name in message
    assert "It was out of service before, and remains so" in message
    assert cluster.read()["spec"]["unschedulable"]
    cluster.plane.kubectl("delete", "pod", "bare", "--namespace=" + cluster.name)
    cluster.run()
    cluster.is_in_service()


def test_a_foreign_cordon(cluster: Cluster) -> None:
    cluster.create()
    cluster.plane.kubectl("cordon", cluster.node)
    assert "is out of service and remains cordoned, as it was before" in cluster.run()
    cluster.is_in_service(cordoned=True)


def test_two_runs_at_once(cluster: Cluster) -> None:
    """The second refuses the node, and the first completes."""
    cluster.create()
    budget(cluster, 2)
    first = cluster.start()
    wait_until_cordoned(cluster, first)
    message = cluster.fails()
    assert "node %s is out of service for another run, process %d on" % (cluster.node, first.pid) in message
    assert IN_SERVICE not in message
    budget(cluster, 1)
    output = first.communicate()[0]
    assert first.returncode == 0, output
    cluster.is_in_service()


def wait_until_cordoned(cluster: Cluster, run: subprocess.Popen[str]) -> None:
    while not cluster.read()["spec"].get("unschedulable"):
        assert run.poll() is None
        time.sleep(0.5)


def budget(cluster: Cluster, pods: int) -> None:
    patch = '-p={"spec": {"minAvailable": %d}}' % pods
    cluster.plane.kubectl("patch", "poddisruptionbudget", "train", "-n", cluster.name, "--type=merge", patch)
    # The eviction API uses the status that the controller computes.
    cluster.plane.kubectl(
        *("wait", "poddisruptionbudget/train", "-n", cluster.name, "--timeout=30s"),
        "--for=jsonpath={.status.desiredHealthy}=%d" % pods,
    )


def set_ready(cluster: Cluster, status: str) -> str:
    """The command that sets whether the node is ready, as its kubelet would."""
    condition = {"type": "Ready", "status": status, "reason": "Test"}
    patch = cluster.work / "ready.json"
    patch.write_text(json.dumps({"status": {"conditions": [condition]}}))
    config = cluster.plane.kubeconfig("admin")
    return "kubectl --kubeconfig=%s patch node %s --subresource=status --patch-file=%s" % (config, cluster.node, patch)
