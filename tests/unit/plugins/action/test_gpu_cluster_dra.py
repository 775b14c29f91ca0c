# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_cluster_dra, and drains with the DRA driver, on a cluster of dictionaries."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import (
    gpu_cluster_dra,
    gpu_cluster_drain,
    gpu_cluster_return,
)
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record as drain_record
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import ON_SERVER, action, host
from ansible_collections.gpufleet.node.tests.unit.plugins.action.cluster_support import DEPLOY, Cluster
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._drain.dra_support import (
    PLUGIN,
    claim,
    driver,
    mig,
    resource_slice,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import (
    node,
    patched,
    pod,
    user,
)

Data = t.Dict[str, t.Any]
HELD = "gpu-0-mig-" + gpu(0)["uuid"].lower()


# --- gpu_cluster_dra --------------------------------------------------------------------------------------------------


def check(
    which: str, *results: t.Any, hosts: t.Sequence[Data] = (), may_be_missing: bool = False, **variables: t.Any
) -> Data:
    """Results of reading nodes, DaemonSets, slices and claims, or the error of all of them."""
    found = action(gpu_cluster_dra, "gpu_cluster_dra", {"check": which, "may_be_missing": may_be_missing})
    listed = [each if isinstance(each, dict) else {"resources": each} for each in results]
    answer = listed[0] if listed[0].get("failed") else {"results": listed}
    found._execute_module = lambda **_arguments: answer
    names = [each["inventory_hostname"] for each in hosts or [host("a")]]
    hostvars = dict(zip(names, hosts or [host("a")]))
    result: Data = found.run(task_vars={"hostvars": hostvars, "ansible_play_hosts": names, **variables})
    return result


def mig_host(name: str, *uuids: str) -> Data:
    return host(name, ansible_facts={"nvidia": {"gpus": [mig(0, *uuids)]}, "nodename": name})


def test_verify_compares_all_hosts() -> None:
    server = host("server", ansible_facts={"nvidia": {"gpus": []}, "nodename": "server"})
    hosts = [server, mig_host("a", "MIG-1"), mig_host("b", "MIG-2"), mig_host("c", "MIG-3")]
    slices = [resource_slice("MIG-1"), resource_slice("MIG-0", name="b")]
    result = check("verify", [node("a"), node("b"), node("server")], [driver(None)], slices, [], hosts=hosts)
    assert result["problems"]["server"] == result["problems"]["a"] == []
    assert result["problems"]["b"][0].startswith("b: 1 of 1 devices are not published: MIG-2 (1g.10gb); 1 published")
    assert result["problems"]["c"][0].startswith("the cluster has no node named c")


@pytest.mark.parametrize(
    "found", [{}, {"capable": True, "current": True, "devices": 5}, {"capable": True, "current": True, "devices": [{}]}]
)
def test_malformed_facts_do_not_stop_the_check_of_other_hosts(found: Data) -> None:
    other = host(
        "b", ansible_facts={"nvidia": {"gpus": [{"index": 0, "uuid": "GPU-1", "mig": found}]}, "nodename": "b"}
    )
    nodes, slices = [node("a"), node("b")], [resource_slice("MIG-1"), resource_slice("MIG-0", name="b")]
    result = check("verify", nodes, [driver(None)], slices, [], hosts=[mig_host("a", "MIG-1"), other])
    assert result["problems"]["a"] == []
    assert "b: its GPUs or MIG devices cannot be read" in result["problems"]["b"][0]


def test_verify_reports_a_node_that_is_out_of_service() -> None:
    run = runs.current()
    out = patched(node("a"), drain_record.cordon(node("a"), run))
    result = check("verify", [out], [driver(None)], [resource_slice("MIG-1")], [], hosts=[mig_host("a", "MIG-1")])
    assert result["problems"]["a"][0].startswith("its node a is out of service for a run of a playbook, %s" % str(run))


# The second keeps the operator's own device plugin off the node.
LABELS = {DEPLOY + "device-plugin": "paused-for-driver-upgrade", DEPLOY + "operands": "false"}


@pytest.mark.parametrize("which", ["preflight", "verify"])
def test_another_owner_of_the_gpus(which: str) -> None:
    item = node("a", {"nvidia.com/mig-1g.10gb": "1"}, **LABELS)
    found = check(which, [item], [driver(None)], [resource_slice("MIG-1")], [], hosts=[mig_host("a", "MIG-1")])
    advertised, paused = found["problems"]["a"]
    assert advertised == (
        "a device plugin advertises nvidia.com/mig-1g.10gb: 1 on node a, so that pods would get the same GPUs: uninstall it"
    )
    assert "has paused components" in paused


def test_two_hosts_with_one_node() -> None:
    hosts = [mig_host("a", "MIG-1"), {**mig_host("b", "MIG-2"), "gpu_cluster_node_name": "a"}]
    problems = check("preflight", [node("a")], [driver(None)], [], [], hosts=hosts)["problems"]
    assert problems == {
        "a": [],
        "b": ["the host a has the same node a: set gpu_cluster_node_name to different nodes"],
    }


def test_verify_reports_nodes_whose_pods_get_no_devices() -> None:
    found = resource_slice("MIG-1")
    found["spec"]["devices"][0]["taints"] = [{"key": "x", "effect": "NoExecute"}]
    not_ready = node("a", ready=False)
    problems = check("verify", [not_ready], [driver(None)], [found], [], hosts=[mig_host("a", "MIG-1")])["problems"][
        "a"
    ]
    assert problems == ["a: the node is not ready", "a: the DRA driver has tainted the device MIG-1 (1g.10gb): x"]


def test_preflight_does_not_compare() -> None:
    assert check("preflight", [node("a")], [driver(None)], [], [])["problems"] == {"a": []}


def test_the_dra_driver_can_be_installed_after_the_first_run() -> None:
    result = check("preflight", [node("a")], [], [], [])
    assert result["problems"] == {"a": []} and "has no DRA driver" in result["warnings"][0]
    assert "has no DRA driver" in check("verify", [node("a")], [], [], [])["problems"]["a"][0]


def test_problems_of_the_cluster_are_those_of_each_host() -> None:
    """The role may run on some of the hosts only."""
    gated = driver("DynamicMIG=true")
    result = check("preflight", [node("a")], [gated], [], [], hosts=[host("a"), host("b")])
    assert "DynamicMIG" in result["problems"]["a"][0] and result["problems"]["a"] == result["problems"]["b"]


def test_an_old_cluster_and_missing_permissions() -> None:
    missing = {"resources": [], "api_found": False, "msg": "not found"}
    old, denied = check("preflight", [node("a")], [driver(None)], missing, {"msg": "claims is forbidden"})["problems"][
        "a"
    ]
    assert old.startswith("the cluster does not have ResourceSlices in its API: the DRA driver needs Kubernetes 1.34")
    assert denied == "the cluster's ResourceClaims cannot be read: claims is forbidden"


AWAY = {"failed": True, "msg": "Connection refused"}
NO_CLIENT = {"failed": True, "msg": "Failed to import the required Python library (kubernetes)"}


@pytest.mark.parametrize(
    ("answer", "arguments", "problem", "warned"),
    [
        (AWAY, {}, "the cluster cannot be read: Connection refused", False),
        (AWAY, {"may_be_missing": True}, "", True),
        (NO_CLIENT, ON_SERVER, "", True),
        (NO_CLIENT, {}, "the controller's Python lacks the library kubernetes", False),
    ],
)
def test_a_cluster_that_cannot_be_read(answer: Data, arguments: Data, problem: str, warned: bool) -> None:
    result = check("preflight", answer, **arguments)
    assert "".join(result["problems"]["a"]).startswith(problem) and bool(result["problems"]["a"]) is bool(problem)
    assert ("was not checked" in "".join(result.get("warnings", []))) is warned
    assert check("verify", answer, **arguments)["problems"]["a"]  # never accepted


# --- Drains -----------------------------------------------------------------------------------------------------------


def plugin(name: str, **spec: t.Any) -> Data:
    out = pod(name, "a", **PLUGIN)
    out["metadata"].update(uid=name, ownerReferences=[{"kind": "DaemonSet", "controller": True}])
    out["spec"].update(spec)
    return out


def with_slices(*uuids: str) -> Cluster:
    """A node whose only device, according to the facts, is a GPU; the claim of train has it."""
    out = Cluster(node("a"), user("train"), user("web"), plugin("old"))
    out.slices, out.claims = [resource_slice(*uuids)], [claim()]
    out.claims[0]["status"]["allocation"]["devices"]["results"].append(
        {"driver": "gpu.nvidia.com", "pool": "a", "device": HELD}
    )
    return out


def off(**changes: t.Any) -> Data:
    return {"ansible_facts": {"nvidia": {"gpus": [gpu(0, current=False)]}, "nodename": "a"}, **changes}


@pytest.fixture(name="dra")
def fixture_dra(run: t.Callable[..., Data]) -> t.Callable[..., Data]:
    def run_with_dra(module: t.Any, cluster: Cluster, variables: t.Optional[Data] = None, **given: t.Any) -> Data:
        return run(module, cluster, variables={"gpu_cluster_allocator": "dra", **(variables or off())}, **given)

    return run_with_dra


CHANGED = [{"uuid": gpu(0)["uuid"], "mode": {"before": False, "desired": True}, "reset_required": False, "kept": []}]


@pytest.mark.parametrize(
    ("pods", "gpus", "evicted"), [("gpu", [], ["train"]), ("affected", CHANGED, ["train"]), ("affected", [], [])]
)
def test_pods_are_selected_by_their_claims(
    dra: t.Callable[..., Data], pods: str, gpus: t.List[Data], evicted: t.List[str]
) -> None:
    cluster = with_slices(gpu(0)["uuid"])
    result = dra(gpu_cluster_drain, cluster, pods=pods, gpus=gpus)
    assert result["evicted"] == ["gpu-operator/" + name for name in evicted] and "failed" not in result


@pytest.mark.parametrize("number", range(1, 7))
def test_any_reading_that_fails_once_is_repeated(dra: t.Callable[..., Data], number: int) -> None:
    cluster = with_slices(gpu(0)["uuid"])
    read, count = cluster.read, [0]

    def fails(requests: t.Sequence[Data]) -> t.List[Data]:
        count[0] += 1
        if count[0] == number:
            raise ConnectionError("Connection refused")
        return read(requests)

    cluster.read = fails  # type: ignore[method-assign]
    assert "failed" not in dra(gpu_cluster_drain, cluster, pods="gpu") and count[0] > number


def test_with_outdated_slices_all_claims_count_as_affected(dra: t.Callable[..., Data]) -> None:
    cluster = with_slices(gpu(0)["uuid"], "MIG-0")
    assert dra(gpu_cluster_drain, cluster, pods="affected")["evicted"] == ["gpu-operator/train"]


def test_an_api_without_claims_is_not_taken_for_one_without_users(dra: t.Callable[..., Data]) -> None:
    cluster = with_slices(gpu(0)["uuid"])
    read = cluster.read

    def old(requests: t.Sequence[Data]) -> t.List[Data]:
        found = read(requests)
        for asked, each in zip(requests, found):
            if asked["kind"].startswith("Resource"):
                each.update(resources=[], api_found=False, msg="no such kind")
        return found

    cluster.read = old  # type: ignore[method-assign]
    assert "no such kind. The node is in service" in dra(gpu_cluster_drain, cluster, pods="gpu")["msg"]
    assert cluster.node and not (cluster.node.get("spec") or {}).get("unschedulable")


def test_a_dra_driver_that_owns_mig_is_rejected(dra: t.Callable[..., Data]) -> None:
    gated = plugin("old")
    gated["spec"]["containers"][0]["env"] = [{"name": "FEATURE_GATES", "value": "DynamicMIG=true"}]
    cluster = Cluster(node("a"), gated)
    assert "DynamicMIG" in dra(gpu_cluster_drain, cluster)["msg"] and cluster.patches == []
    assert "DynamicMIG" in dra(gpu_cluster_return, cluster)["msg"] and cluster.pods


def test_the_kubelet_plugin_is_paused_after_its_clients(dra: t.Callable[..., Data]) -> None:
    labels = {DEPLOY + name: "true" for name in ("dra-driver", "dcgm-dra")}
    cluster = Cluster(node("a", **labels))
    dra(gpu_cluster_drain, cluster)
    paused = [sorted(each["metadata"].get("labels", {})) for each in cluster.patches]
    assert paused == [[], [DEPLOY + "dcgm-dra"], [DEPLOY + "dra-driver"]]
    assert cluster.node
    record = drain_record.read_record(cluster.node)
    assert record and record.labels == labels and record.drained
    cluster.started, cluster.slices = plugin("new"), [resource_slice(gpu(0)["uuid"])]
    assert "failed" not in dra(gpu_cluster_return, cluster)
    assert labels.items() <= cluster.node["metadata"]["labels"].items()


def test_without_its_label_the_kubelet_plugin_is_restarted(dra: t.Callable[..., Data]) -> None:
    cluster = with_slices("MIG-0")
    dra(gpu_cluster_drain, cluster)
    delete = cluster.delete

    def restart(requests: t.Sequence[Data]) -> t.List[Data]:
        cluster.pods.append(plugin("new"))
        cluster.slices = [resource_slice(gpu(0)["uuid"], generation=2)]
        return delete(requests)

    message = dra(gpu_cluster_return, cluster)["msg"]
    assert "remains cordoned: a: the kubelet plugin of the DRA driver is not ready; a: 1 of 1 devices" in message
    cluster.pods = [plugin("old")]
    cluster.delete = restart  # type: ignore[method-assign]
    assert "failed" not in dra(gpu_cluster_return, cluster)
    assert [each["metadata"]["name"] for each in cluster.pods] == ["new"]
    assert cluster.node and not cluster.node["spec"]["unschedulable"]


def test_a_node_that_was_not_drained(dra: t.Callable[..., Data]) -> None:
    """Nothing happens while the right devices are published, or if those of the host are unknown."""
    cluster = with_slices(gpu(0)["uuid"])
    assert dra(gpu_cluster_return, cluster) == {"changed": False}
    unknown = {"ansible_facts": {"nvidia": {"gpus": None}, "nodename": "a"}}
    cluster.slices = []
    assert dra(gpu_cluster_return, cluster, variables=unknown) == {"changed": False}
    cluster.pods = []  # the DRA driver does not run here
    assert dra(gpu_cluster_return, cluster) == {"changed": False}
    cluster.pods = [plugin("old")]
    message = dra(gpu_cluster_return, cluster)["msg"]
    assert "It remains in service" in message and cluster.patches == []
    assert cluster.calls.count("delete") == 1
