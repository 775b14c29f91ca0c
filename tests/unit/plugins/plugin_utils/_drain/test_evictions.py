# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import evictions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.evictions import DeviceChange, EvictionOptions
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import user

Data = t.Dict[str, t.Any]
NOTHING = DeviceChange([], {})
DEFAULT = EvictionOptions()


def names(pods: t.Iterable[Data], options: EvictionOptions = DEFAULT, change: DeviceChange = NOTHING) -> t.List[str]:
    return [each["metadata"]["name"] for each in evictions.pods_to_evict(pods, options, change)[0]]


def test_the_meaning_of_kubectl_options() -> None:
    data = {"volumes": [{"emptyDir": {}}]}
    pods = [user("one"), user("set", owner="DaemonSet"), user("bare", owner=""), user("data", **data)]
    assert names(pods) == ["one"]
    assert evictions.pods_to_evict(pods, EvictionOptions(), NOTHING)[1] == [
        "pod gpu-operator/bare has no controller that would replace it (see gpu_cluster_drain_force)",
        "pod gpu-operator/data has data in an emptyDir volume (see gpu_cluster_drain_delete_emptydir_data)",
    ]
    assert names(pods, EvictionOptions(force=True, delete_emptydir_data=True)) == ["one", "bare", "data"]
    (problem,) = evictions.pods_to_evict(pods[:2], EvictionOptions(ignore_daemonsets=False), NOTHING)[1]
    assert problem.startswith("pod gpu-operator/set belongs to a DaemonSet")


def test_static_and_finished_pods() -> None:
    static = user("static", owner="Node")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    finished = [user("done", owner="", volumes=[{"emptyDir": {}}]), user("failed", owner="DaemonSet")]
    finished[0]["status"]["phase"], finished[1]["status"]["phase"] = "Succeeded", "Failed"
    assert names([static, *finished]) == ["done", "failed"]
    assert names(finished, EvictionOptions("gpu")) == []


def test_only_pods_that_use_gpus() -> None:
    assert names([user("web"), user("train", 1)], EvictionOptions("gpu")) == ["train"]


@pytest.mark.parametrize("pods", ["gpu", "affected"])
def test_other_resources_of_nvidia_are_not_gpus(pods: str) -> None:
    network, memory, both = user("network"), user("memory"), user("both", 1)
    network["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/hostdev": "1"}}
    memory["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpumem": "80Gi"}}
    both["spec"]["containers"][0]["resources"]["limits"].update({"nvidia.com/hostdev": "1", "nvidia.com/gpumem": "1M"})
    change = DeviceChange(None, {"network": set(), "memory": set()})
    assert names([network, memory, both], EvictionOptions(pods), change) == ["both"]


def test_only_pods_whose_devices_change() -> None:
    pods = [user("web"), user("kept", 1), user("lost", 1), user("new", 1)]
    allocated = {"kept": {"MIG-1"}, "lost": {"MIG-2"}}
    assert names(pods, EvictionOptions("affected"), DeviceChange({"MIG-2", "GPU-1"}, allocated)) == ["lost", "new"]
    # If the devices are unknown, all may be affected.
    assert names(pods, EvictionOptions("affected"), DeviceChange({"MIG-2"}, None)) == ["kept", "lost", "new"]


def checkpoint(*entries: Data) -> str:
    return base64.b64encode(json.dumps({"Data": {"PodDeviceEntries": list(entries)}}).encode()).decode()


def test_the_devices_in_the_kubelet_checkpoint() -> None:
    def entry(uid: str, resource: str, *ids: str) -> Data:
        return {"PodUID": uid, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": {"-1": list(ids)}}

    text = checkpoint(
        entry("1", "nvidia.com/gpu", "MIG-1", "MIG-2"),
        entry("2", "nvidia.com/gpu", "GPU-1::3"),
        entry("3", "x.com/y", "z"),
        entry("4", "nvidia.com/hostdev", "0000:41:00.0"),
        entry("5", "nvidia.com/mig-1g.10gb.shared", "MIG-3::0"),
    )
    assert evictions.devices_allocated(text) == {"1": {"MIG-1", "MIG-2"}, "2": {"GPU-1"}, "5": {"MIG-3"}}
    assert evictions.devices_allocated(base64.b64encode(b'{"Data": {"PodDeviceEntries": null}}').decode()) == {}


@pytest.mark.parametrize(
    "text",
    [None, "", "&", *(base64.b64encode(each).decode() for each in (b"{}", b"[" * 100000)), checkpoint({"PodUID": "1"})],
)
def test_a_checkpoint_that_cannot_be_read_is_unknown(text: t.Optional[str]) -> None:
    assert evictions.devices_allocated(text) is None


def planned(*kept: str, **more: t.Any) -> Data:
    instances = [{"compute_instances": [{"uuid": uuid}, {"uuid": None}]} for uuid in kept]
    out: Data = {"uuid": "GPU-1", "mode": {"before": True, "desired": True}, "reset_required": False, "kept": instances}
    return {**out, **more}


def test_the_devices_that_a_plan_changes() -> None:
    present = [{"uuid": "GPU-1", "mig": {"devices": [{"uuid": "MIG-1"}, {"uuid": "MIG-2"}]}}]
    assert evictions.devices_changed([planned("MIG-1", "MIG-2")], present) == set()
    assert evictions.devices_changed([planned("MIG-1")], present) == {"GPU-1", "MIG-2"}
    everything = {"GPU-1", "MIG-1", "MIG-2"}
    off = {"before": True, "desired": False}
    assert evictions.devices_changed([planned(mode=off)], present) == everything
    assert evictions.devices_changed([planned("MIG-1", "MIG-2", reset_required=True)], present) == everything
    whole = [{"uuid": "GPU-1", "mig": {"devices": []}}]
    assert evictions.devices_changed([planned(mode=off)], whole) == {"GPU-1"}


def test_devices_of_unknown_gpus() -> None:
    assert evictions.devices_changed([planned()], []) is None
    assert evictions.devices_changed([planned()], [{"uuid": "GPU-1", "mig": {"devices": None}}]) is None
    assert names([user("train", 1)], EvictionOptions("affected"), DeviceChange(None, {"train": set()})) == ["train"]
