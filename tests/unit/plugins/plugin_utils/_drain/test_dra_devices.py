# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices that the DRA driver publishes, and the pods that use them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_devices, evictions
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain.evictions import DeviceChange, EvictionOptions
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._drain.dra_support import (
    PLUGIN,
    SMALL,
    claim,
    driver,
    mig,
    resource_slice,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu, unknown
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import (
    daemonset,
    node,
    pod,
    user,
)

Data = t.Dict[str, t.Any]


def host(*gpus: Data, **changes: t.Any) -> Host:
    return Host("a", gpus=gpus, **changes)


def test_the_published_devices_are_those_of_the_newest_generation() -> None:
    found = [resource_slice("MIG-1"), resource_slice("MIG-2", generation=2), resource_slice("MIG-9", name="b")]
    assert dra_devices.published(found, "a") == {"gpu-0-mig-mig-2": dra_devices.DraDevice("MIG-2", SMALL)}


@pytest.mark.parametrize("found", [[], [resource_slice("MIG-1", name="b")], [resource_slice("MIG-1", count=2)]])
def test_what_is_not_published_completely_is_unknown(found: t.List[Data]) -> None:
    assert dra_devices.published(found, "a") is None
    (text,) = dra_devices.differences(host(mig(0, "MIG-1")), "a", found)
    assert text.startswith("a: the DRA driver has not published its devices. Check its pod on the node")


def test_a_gpu_in_mig_mode_is_published_only_through_its_mig_devices() -> None:
    """A GPU that is only on the PCI bus is not published either."""
    found = dra_devices.present(host(mig(0, "MIG-1"), mig(1), gpu(2, current=False), gpu(3, current=None)))
    assert found == [
        dra_devices.DraDevice("MIG-1", SMALL),
        dra_devices.DraDevice(gpu(2)["uuid"]),
        dra_devices.DraDevice(gpu(3)["uuid"]),
    ]
    assert dra_devices.present(host(unknown(None, None))) == []


@pytest.mark.parametrize(
    "known",
    [None, [unknown(0, "lost")], [unknown(0, "no mode", capable=True)], [unknown(0, "x", capable=True, current=True)]],
)
def test_unknown_gpus_are_not_compared(known: t.Optional[t.List[Data]]) -> None:
    (reason,) = dra_devices.differences(Host("a", gpus=known), "a", [resource_slice()])
    assert "cannot be read" in reason


def test_devices_that_are_neither_gpus_nor_mig_devices_do_not_count() -> None:
    found = resource_slice("MIG-1", "VFIO")
    found["spec"]["devices"][1]["attributes"]["type"]["string"] = "vfio"
    assert dra_devices.differences(host(mig(0, "MIG-1")), "a", [found]) == []


def test_a_node_without_devices() -> None:
    """MIG mode without instances: nothing needs to be published."""
    assert dra_devices.differences(host(mig(0)), "a", []) == []


def test_a_node_without_the_dra_driver() -> None:
    """A server, or a node before it is installed."""
    own = host(mig(0, "MIG-1"))
    assert dra_devices.unready(own, node("a"), [], [], [], ()) == []
    assert dra_devices.unready(own, node("a", ready=False), [], [], [], ()) == ["a: the node is not ready"]
    # Its pods have other labels.
    (text,) = dra_devices.unready(own, node("a"), [], [resource_slice("MIG-0")], [], ())
    assert "MIG-0" in text and dra_devices.unready(own, node("a"), [], [resource_slice("MIG-1")], [], ()) == []
    assert (
        len(dra_devices.unready(own, node("a"), [], [], [], {dra_devices.COMPONENT})) == 2
    )  # its pod comes when it is resumed


def test_differences_between_the_host_and_what_is_published() -> None:
    found = [resource_slice("MIG-1", "MIG-2")]
    assert dra_devices.differences(host(mig(0, "MIG-1", "MIG-2")), "a", found) == []
    assert dra_devices.differences(host(mig(0, "MIG-1", "MIG-3")), "a", found) == [
        "a: 1 of 2 devices are not published: MIG-3 (1g.10gb); 1 published devices do not exist: MIG-2 (1g.10gb). Restart "
        "the kubelet plugin of the DRA driver, or run mig.yml"
    ]
    many = mig(0, *("MIG-%d" % number for number in range(7)))
    (text,) = dra_devices.differences(host(many), "a", [resource_slice()])
    assert "MIG-4 (1g.10gb) and others" in text
    # The layout has the same profiles, but the instances were made again.
    assert dra_devices.differences(host(mig(0, "MIG-8", "MIG-9")), "a", found) != []


@pytest.mark.parametrize(
    ("known", "listed", "same"),
    [
        ("3g.40gb", "4g.40gb", False),
        ("1g.20gb", "2g.20gb", False),
        ("1g.10gb", "1g.20gb", False),
        ("1g.10gb", "1g.10gb+me", False),
        ("3g.40gb", "3g.39gb", True),  # other names of one profile
        ("1c.1g.20gb", "1g.20gb", True),
        ("3g.40gb", "new", False),
        ("new", "new", True),
    ],
)
def test_the_uuid_of_another_profile_at_the_same_place(known: str, listed: str, same: bool) -> None:
    found = [resource_slice("MIG-1 " + listed)]
    assert (dra_devices.differences(host(mig(0, "MIG-1 " + known)), "a", found) == []) is same


def test_tainted_devices() -> None:
    found = resource_slice("MIG-1", "MIG-2")
    found["spec"]["devices"][0]["taints"] = [{"key": "gpu.nvidia.com/unmonitored", "effect": "None"}]
    found["spec"]["devices"][1]["taints"] = [{"key": "gpu.nvidia.com/xid", "effect": "NoExecute"}]
    assert dra_devices.tainted("a", [found]) == [
        "a: the DRA driver has tainted the device MIG-2 (1g.10gb): gpu.nvidia.com/xid"
    ]


def test_pods_use_the_devices_of_their_claims() -> None:
    devices = dra_devices.published([resource_slice("MIG-1", "MIG-2")], "a") or {}
    claims = [
        claim("mig-1", uids=("one", "two")),
        claim("mig-2", uids=("two",)),
        claim("mig-1", uids=("elsewhere",), pool="b"),
        claim("mig-1", uids=("network",), driver="net.example.com"),
        {"spec": {}},
    ]
    held = dra_devices.claimed(claims, devices, "a")
    assert held == {"one": {"MIG-1"}, "two": {"MIG-1", "MIG-2"}}
    pods = [user("one"), user("two"), user("web"), user("elsewhere")]

    def evicted(which: str, *changed: str) -> t.List[str]:
        found = evictions.pods_to_evict(pods, EvictionOptions(which), DeviceChange(changed, held))[0]
        return [each["metadata"]["name"] for each in found]

    assert evicted("gpu") == ["one", "two"]
    assert evicted("affected", "MIG-2") == ["two"]
    assert evicted("affected") == []


def test_a_claimed_device_that_is_not_published_counts_as_affected() -> None:
    held = dra_devices.claimed([claim("mig-1")], {}, "a")
    assert evictions.pods_to_evict([user("train")], EvictionOptions("affected"), DeviceChange([], held))[0]


def test_a_node_is_ready_with_a_new_plugin_that_publishes_its_devices() -> None:
    old, new = pod("old", "a", **PLUGIN), pod("new", "a", **PLUGIN)
    old["metadata"]["uid"], new["metadata"]["uid"] = "old", "new"
    own, found = host(mig(0, "MIG-1")), [resource_slice("MIG-1")]
    assert dra_devices.unready(own, node("a"), [old, new], found, [old], ()) == []
    assert dra_devices.unready(own, node("a"), [old], found, [old], ()) == [
        "a: the kubelet plugin of the DRA driver is not ready"
    ]
    assert dra_devices.unready(own, node("a", ready=False), [new], found, [], ()) == ["a: the node is not ready"]
    assert dra_devices.unready(own, node("a"), [new], [resource_slice("MIG-0")], [], ()) != []


@pytest.mark.parametrize(
    "labels",
    [PLUGIN, {"nvidia-dra-driver-gpu-component": "kubelet-plugin"}, {"app": "nvidia-dra-driver-kubelet-plugin"}],
)
def test_the_kubelet_plugin_of_each_chart(labels: t.Dict[str, str]) -> None:
    found = [pod("plugin", "a", **labels), pod("controller", "a", **{"dra-driver-nvidia-gpu-component": "controller"})]
    assert dra_devices.kubelet_plugins(found) == found[:1]


@pytest.mark.parametrize(
    ("gates", "rejected"),
    [
        (None, False),
        ("", False),
        ("MPSSupport=true,DynamicMIG=false,", False),
        ("MPSSupport=true,DynamicMIG=true,", True),
        ("AllAlpha=true", True),
        ("AllAlpha=true,DynamicMIG=false", False),
    ],
)
def test_dynamic_mig_is_rejected(gates: t.Optional[str], rejected: bool) -> None:
    found = driver(gates)
    assert bool(dra_devices.dynamic_mig([found])) is rejected
    running = {**found["spec"]["template"], "metadata": {**found["spec"]["template"]["metadata"], "name": "pod"}}
    assert bool(dra_devices.dynamic_mig([running])) is rejected


def test_the_gates_of_other_programs() -> None:
    assert dra_devices.dynamic_mig([driver("AllAlpha=true", app="other")]) == []


def test_whether_the_dra_driver_is_installed() -> None:
    assert dra_devices.is_installed([daemonset("other"), driver(None)], []) and not dra_devices.is_installed(
        [daemonset("other")], []
    )
    assert dra_devices.is_installed([daemonset("other")], [resource_slice("MIG-1")])  # its pods have other labels
