# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of simulated hosts, whose nodes are in a cluster with a real API server; and a rehearsal with its pods."""

from __future__ import annotations

import json
import typing as t

from conftest import Cluster, allow, node
from gpulab import control_plane

from ansible_collections.gpufleet.node.tests.playbooks.conftest import NVSIM, PLAYBOOKS, Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import GONE

Data = t.Dict[str, t.Any]
MIG, REHEARSE, REPORT = (PLAYBOOKS / (name + ".yml") for name in ("mig", "rehearse", "report"))
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 2}}]  # of the host served
GPU, SMALL = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
OFFERED = {SMALL: 2, "nvidia.com/mig-3g.40gb": 1}  # with this layout
WHOLE = {GPU: 1}
NODES = ("drained", "cordoned", "served", "other", "down")  # hosts with a node


def create(cluster: Cluster) -> t.Dict[str, str]:
    """The names of the nodes, by host. Two of them have pods."""
    plane = cluster.plane
    names = {host: "%s-%d" % (cluster.name, number) for number, host in enumerate(NODES, 1)}
    items: t.List[Data] = []
    for host, name in names.items():
        offered = {key: str(count) for key, count in (OFFERED if host == "served" else WHOLE).items()}
        created = node(name, cluster.name)
        created["metadata"]["labels"]["nvidia.com/mig.strategy"] = "mixed"
        created["status"] = {key: {"cpu": "8", "pods": "110", **offered} for key in ("capacity", "allocatable")}
        items.append(created)
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    pods: t.Sequence[t.Tuple[str, str, Data, Data]] = (
        ("one", "served", {SMALL: "1"}, {}),
        ("two", "served", {SMALL: "1"}, {}),
        ("claiming", "served", {}, claims),
        ("elsewhere", "other", {GPU: "1"}, {}),
    )
    for name, host, limits, more in pods:
        container = {"name": "main", "image": "gpufleet.invalid/simulated", "resources": {"limits": limits}}
        spec = {"nodeName": names[host], "containers": [container], **more}
        metadata = {"name": name, "namespace": cluster.name}
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    plane.kubectl("create", "namespace", cluster.name)
    plane.kubectl("create", "--filename=-", given="\n---\n".join(map(json.dumps, items)))
    return names


def report(fleet: Fleet, plane: control_plane.ControlPlane, user: str) -> t.Tuple[Data, str]:
    """The data and the page that a user of the cluster gets."""
    fleet.play(REPORT, "-e", "report_path=out", gpu_cluster_kubeconfig=str(plane.kubeconfig(user, None)))
    out = fleet.work / "out"
    return json.loads((out / "report.json").read_text()), (out / "index.html").read_text()


def test_what_the_cluster_shows_of_hosts(cluster: Cluster, plane: control_plane.ControlPlane) -> None:
    allow(plane, "reporter", "gpufleet-verify")
    names = create(cluster)
    fleet = Fleet(cluster.work)
    for host in ("drained", "cordoned", "served", "lost"):
        fleet.node(host, "--board", "A100-80GB", gpu_cluster_node_name=names.get(host, "lost"))
    fleet.node("other", "--board", "A100-80GB", "--gpus", "2", gpu_cluster_node_name=names["other"])
    fleet.host("down", **GONE, gpu_cluster_node_name=names["down"])
    fleet.hosts["served"]["nvidia_mig_layout"] = LAYOUT
    fleet.play(MIG, "--limit", "served")
    assert cluster.node == names["drained"]
    cluster.fails(change="false")  # so that the node stays out of service
    plane.kubectl("cordon", names["cordoned"])

    data, page = report(fleet, plane, "reporter")
    problems = {
        name: ["%(kind)s: %(text)s" % each for each in host["problems"]] for name, host in data["hosts"].items()
    }
    (drained,), (lost,), (down,) = (problems.pop(host) for host in ("drained", "lost", "down"))
    assert drained.startswith("service: its node is out of service by a run of this collection, process ")
    assert lost.startswith("cluster: the cluster has no node named lost: set gpu_cluster_node_name to an existing node")
    assert down.startswith("unreachable: ")
    assert problems == {
        "cordoned": ["service: its node is out of service by someone else, who cordoned it"],
        "served": [],
        "other": [
            "cluster: its node advertises %s: 1, should advertise %s: 2 with the MIG strategy mixed" % (GPU, GPU)
        ],
    }
    shown = {host: data["cluster"]["nodes"][name] for host, name in names.items()}
    assert all(each["ready"] for each in shown.values())
    served, unknown = shown["served"], shown["down"]
    assert served["allocatable"] == served["expected"] == OFFERED
    assert [each["name"] for each in served["pods"]] == ["one", "two"]
    assert (served["requested"], served["pods_with_claims"]) == ({SMALL: 2}, 1)
    assert (unknown["expected"], unknown["expected_unknown"]) == (None, "the GPUs of the node are unknown")
    assert "unknown devices of 1 pod with resource claims" in page

    data, page = report(fleet, plane, "nobody")
    assert data["cluster"]["error"].startswith('nodes is forbidden: User "nobody" cannot list resource "nodes"')
    assert (data["totals"]["resources"], data["cluster"]["nodes"]) == (None, {})
    assert "The cluster cannot be read: nodes is forbidden" in page
    assert '<dd>unknown</dd><dd class="sub">cluster cannot be read</dd>' in page


def test_a_rehearsal_with_the_pods_of_the_cluster(cluster: Cluster, plane: control_plane.ControlPlane) -> None:
    names = create(cluster)
    fleet = Fleet(cluster.work)
    fleet.environment["PYTHONPATH"] = str(NVSIM.parents[1])
    fleet.variables = {"nvidia_mig_layout": [{**LAYOUT[0], "mig_devices": {"3g.40gb": 1, "1g.10gb": 1}}]}
    fleet.host("served", gpu_node_boards=["A100-80GB"], gpu_cluster_node_name=names["served"])
    (fleet.work / "pods.json").write_text(plane.kubectl("get", "pods", "--namespace", cluster.name, "--output=json"))
    run = fleet.play(REHEARSE, "-e", "rehearse_pods=pods.json")
    found = run.output.replace(cluster.name + "/", "")
    assert "two (nvidia.com/mig-1g.10gb: 1): no room is left beside the other pods" in found
    assert "not checked, because of their resource claims: claiming" in found
    assert "not checked, because their nodes are not in the rehearsal: elsewhere on " + names["other"] in found
