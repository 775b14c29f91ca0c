# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains for the DRA driver: real ResourceSlices, and claims that the real scheduler allocates."""

from __future__ import annotations

import json
import typing as t

import pytest
from conftest import DEPLOY, RECORD, Cluster, node, with_pods
from fake_dra_driver import API, DRIVER, GPU, PLUGIN, DraDriver, uid
from gpulab import control_plane

Data = t.Dict[str, t.Any]


def gpus(**devices: str) -> str:
    """The facts of a GPU in MIG mode. Underscores in the UUIDs are hyphens."""
    listed = [{"uuid": uuid.replace("_", "-"), "profile": profile} for uuid, profile in devices.items()]
    mig = {"capable": True, "current": True, "pending": True, "devices": listed}
    return json.dumps([{"index": 0, "uuid": GPU, "mig": mig}])


def claim_template(name: str, *profiles: str) -> Data:
    wanted = " || ".join('device.attributes["%s"].profile == "%s"' % (DRIVER, profile) for profile in profiles)
    exactly = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": wanted}}]}
    request = {"name": "gpu", "exactly": exactly}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def device_class() -> Data:
    chosen = 'device.driver == "%s" && device.attributes["%s"].type == "mig"' % (DRIVER, DRIVER)
    spec = {"selectors": [{"cel": {"expression": chosen}}]}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "mig.nvidia.com"}, "spec": spec}


def user(group: str, name: str) -> Data:
    out = with_pods("Deployment", name, {"group": group}, {"replicas": 1}, {})
    spec = out["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return out


def device(cluster: Cluster, app: str) -> str:
    """The device that the scheduler has given to a workload."""
    owner = uid(cluster, app)
    found = cluster.plane.kubectl("get", "resourceclaims", "--namespace", cluster.name, "--output=json")
    (name,) = [
        result["device"]
        for each in json.loads(found)["items"]
        if owner in [user["uid"] for user in each["status"].get("reservedFor", ())]
        for result in each["status"]["allocation"]["devices"]["results"]
    ]
    return str(name)


@pytest.fixture(name="labelled", params=[False, True], ids=["own-chart", "operator"])
def fixture_labelled(request: pytest.FixtureRequest) -> bool:
    """Whether the GPU operator deploys the kubelet plugin, by label."""
    return bool(request.param)


@pytest.fixture(name="driver")
def fixture_driver(cluster: Cluster, plane: control_plane.ControlPlane, labelled: bool) -> t.Iterator[DraDriver]:
    """A node with two MIG devices, which two deployments use: kept has the 1g.10gb, and lost the other."""
    driver = DraDriver(cluster)
    driver.write(gpus(MIG_1="1g.10gb", MIG_2="2g.20gb"))
    item = node(cluster.node, cluster.name)
    if labelled:
        item["metadata"]["labels"][DEPLOY + "dra-driver"] = "true"
    selector = {"group": cluster.name, **({DEPLOY + "dra-driver": "true"} if labelled else {})}
    objects = [
        with_pods("DaemonSet", PLUGIN, selector, {}, {}),
        claim_template("kept", "1g.10gb"),
        claim_template("lost", "2g.20gb", "3g.40gb"),
        user(cluster.name, "kept"),
        user(cluster.name, "lost"),
    ]
    plane.kubectl("apply", "--filename=-", given=json.dumps(device_class()))
    plane.kubectl("create", "--filename=-", given=json.dumps(item))
    plane.kubectl("create", "namespace", cluster.name)
    with driver:
        for each in objects:
            plane.kubectl("create", "--namespace", cluster.name, "--filename=-", given=json.dumps(each))
        yield driver
    plane.kubectl("delete", "resourceslices", cluster.node + "-gpu", "--ignore-not-found")


def variables(driver: DraDriver, after: str, **drained_for: t.Any) -> Data:
    """Those of a run after which the node has other GPUs."""
    return {
        "gpu_cluster_allocator": "dra",
        "gpus_file": str(driver.gpus),
        "change": driver.change(after),
        "drained_for": drained_for,
    }


def plan(*kept: str) -> t.List[Data]:
    """The planned change of nvidia_mig."""
    instances = [{"compute_instances": [{"uuid": uuid}]} for uuid in kept]
    return [{"uuid": GPU, "mode": {"before": True, "desired": True}, "reset_required": False, "kept": instances}]


def test_only_pods_whose_claimed_devices_change_are_evicted(
    cluster: Cluster, driver: DraDriver, labelled: bool
) -> None:
    before = {app: uid(cluster, app) for app in ("kept", "lost", PLUGIN)}
    assert (device(cluster, "kept"), device(cluster, "lost")) == ("gpu-0-mig-0", "gpu-0-mig-1")
    after = gpus(MIG_1="1g.10gb", MIG_3="3g.40gb")
    cluster.run(**variables(driver, after, pods="affected", gpus=plan("MIG-1")))
    assert uid(cluster, "kept") == before["kept"]
    # The scheduler allocates the new device as soon as the node is in service.
    assert uid(cluster, "lost") != before["lost"] and device(cluster, "lost") == "gpu-0-mig-1"
    assert uid(cluster, PLUGIN) != before[PLUGIN] and driver.generation == 2
    found = cluster.read()
    assert not found["spec"].get("unschedulable") and RECORD not in found["metadata"].get("annotations", {})
    assert found["metadata"]["labels"].get(DEPLOY + "dra-driver") == ("true" if labelled else None)
    cluster.proxy.writes.clear()
    cluster.run(**variables(driver, after, nothing=True))
    assert cluster.proxy.writes == []  # all devices are published


@pytest.mark.parametrize("labelled", [False], indirect=True, ids=["own-chart"])
def test_added_devices_are_published_without_a_drain(cluster: Cluster, driver: DraDriver) -> None:
    before = {app: uid(cluster, app) for app in ("kept", "lost", PLUGIN)}
    after = gpus(MIG_1="1g.10gb", MIG_2="2g.20gb", MIG_3="3g.40gb")
    cluster.run(**variables(driver, after, nothing=True))
    assert {app: uid(cluster, app) for app in ("kept", "lost")} == {app: before[app] for app in ("kept", "lost")}
    assert uid(cluster, PLUGIN) != before[PLUGIN] and driver.generation == 2
    assert [each.split()[0] for each in cluster.proxy.writes] == ["DELETE"]  # of the plugin's pod


@pytest.mark.parametrize("labelled", [False], indirect=True, ids=["own-chart"])
def test_a_driver_that_does_not_publish_the_new_devices(cluster: Cluster, driver: DraDriver) -> None:
    uid(cluster, "lost")
    given = variables(driver, gpus(MIG_1="1g.10gb", MIG_3="3g.40gb"))
    driver.devices = lambda: {"MIG-1": "1g.10gb", "MIG-2": "2g.20gb"}  # type: ignore[method-assign]
    message = cluster.fails(**{**given, "seconds": 15})
    assert "1 of 2 devices are not published: " in message and "1 published devices do not exist: " in message
    assert cluster.read()["spec"]["unschedulable"]
