# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for the device plugin and GPU feature discovery: what they refuse, and labels of a real node.

That pods get the devices of their resources is shown by the scenarios.
"""

from __future__ import annotations

import typing as t

import pytest
import yaml
from operands import config_manager, labels, plugin_config, resources
from operands.gpus import Gpu, Inventory, MigDevice

# As NVML describes an A100 80GB; the labels of the profiles are those of a real node.
ATTRIBUTES = {
    "1g.10gb": (9728, 14, 1, 1, 1, 0),
    "2g.20gb": (19968, 28, 2, 2, 2, 1),
    "3g.40gb": (40192, 42, 3, 3, 3, 2),
    "1g.10gb+me": (9728, 14, 1, 1, 1, 1),
    "1c.3g.40gb": (40192, 14, 3, 1, 3, 2),
}


def mig(profile: str, gi: int, ci: int = 0) -> MigDevice:
    memory, multiprocessors, gi_slices, ci_slices, copy, decoders = ATTRIBUTES[profile]
    attributes = {
        "memory": memory,
        "multiprocessors": multiprocessors,
        "slices.gi": gi_slices,
        "slices.ci": ci_slices,
        "engines.copy": copy,
        "engines.decoder": decoders,
        "engines.encoder": 0,
        "engines.jpeg": 0,
        "engines.ofa": 0,
    }
    return MigDevice("MIG-%s-%d-%d" % (profile, gi, ci), profile, gi, ci, attributes)


def gpu(index: int = 0, devices: t.Optional[t.Sequence[MigDevice]] = None) -> Gpu:
    """A GPU, in MIG mode if it has a list of devices."""
    place = "0000:%02x:00.0" % index
    name = "NVIDIA A100 80GB PCIe"
    return Gpu(
        "GPU-%d" % index, name, index, place, "0x20B510DE", 81920, (8, 0), True, devices is not None, devices or ()
    )


SEVEN = [mig("1g.10gb", gi) for gi in (7, 8, 9, 10, 11, 12, 13)]
THREE = [mig("3g.40gb", 1), mig("2g.20gb", 5), mig("1g.10gb", 13)]


@pytest.mark.parametrize(
    ("strategy", "gpus", "reason"),
    [
        ("single", [gpu(0, THREE)], "more than one MIG device type"),
        ("single", [gpu(0, SEVEN), gpu(1)], "same migEnabled value"),
        ("single", [gpu(0, [])], "no MIG devices"),
        ("mixed", [gpu(0, SEVEN), gpu(1, [])], "GPU-1 has no MIG devices"),
        ("mixed", [gpu(0, [mig("1c.3g.40gb", 1)])], "'1c.3g.40gb' does not match any resource patterns"),
        ("simple", [gpu(0)], "unknown MIG strategy"),
    ],
)
def test_configurations_that_the_plugin_refuses(strategy: str, gpus: t.Sequence[Gpu], reason: str) -> None:
    with pytest.raises(resources.Invalid, match=reason):
        resources.resources(gpus, strategy, {})


def test_preferred_devices_include_the_required_ones() -> None:
    assert resources.preferred(["c", "a", "b"], ["c"], 2) == ["c", "a"]


def test_preferred_replicas_are_spread_over_devices() -> None:
    free = ["a::0", "a::1", "b::0", "b::1", "b::2"]
    assert resources.preferred(free, [], 1) == ["b::0"]
    assert resources.preferred(free, [], 3) == ["b::0", "a::0", "b::1"]


@pytest.mark.parametrize("wrong", [{"DEVICE_LIST_STRATEGY": "env"}, {"DEVICE_ID_STRATEGY": "index"}])
def test_settings_that_the_plugin_refuses(wrong: t.Mapping[str, str]) -> None:
    with pytest.raises(resources.Invalid):
        resources.settings(wrong)


def shared(*entries: t.Mapping[str, t.Any]) -> plugin_config.Replicas:
    return plugin_config.parse(yaml.safe_dump({"version": "v1", "sharing": {"timeSlicing": {"resources": entries}}}))


def test_replicas() -> None:
    assert plugin_config.parse("") == plugin_config.parse("version: v1") == {}
    assert shared({"name": "gpu", "replicas": 2}) == {"nvidia.com/gpu": 2}
    devices = resources.resources([gpu(0, SEVEN[:1]), gpu(1)], "mixed", {})
    found = plugin_config.shared(devices, {"nvidia.com/gpu": 2, "nvidia.com/mig-7g.80gb": 2})
    assert {name: [device.id for device in each] for name, each in found.items()} == {
        "nvidia.com/gpu": ["GPU-1::0", "GPU-1::1"],
        "nvidia.com/mig-1g.10gb": ["MIG-1g.10gb-7-0"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "a: b: c",
        "[]",
        "version: v2",
        "{version: v1, flags: {migStrategy: mixed}}",
        "{version: v1, sharing: {timeSlicing: null}}",
        "{version: v1, sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}}",
        "{version: v1, sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}}",
        "{version: v1, sharing: {timeSlicing: {resources: [{name: gpu}]}}}",
        "{version: v1, sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}}",
        "{version: v1, sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0]}]}}}",
    ],
)
def test_files_that_the_plugin_refuses(text: str) -> None:
    with pytest.raises(resources.Invalid):
        plugin_config.parse(text)


def test_a_missing_file_is_not_replaced_by_the_default() -> None:
    assert [config_manager.selected(["a", "b"], label, "b") for label in ("a", "")] == ["a", "b"]
    with pytest.raises(resources.Invalid):
        config_manager.selected(["a", "b"], "c", "b")


# --- Labels -----------------------------------------------------------------------------------------------------------

# Labels that GPU feature discovery wrote on a real node (A100 80GB PCIe, driver 515.86.01), without the timestamp and
# gpu.machine. The versions since then add labels.
COMMON = {
    "cuda.driver.major": "515",
    "cuda.driver.minor": "86",
    "cuda.driver.rev": "01",
    "cuda.runtime.major": "11",
    "cuda.runtime.minor": "7",
    "gpu.compute.major": "8",
    "gpu.compute.minor": "0",
    "gpu.family": "ampere",
    "mig.capable": "true",
}
NONE = {
    **COMMON,
    "gpu.count": "1",
    "gpu.memory": "81920",
    "gpu.product": "NVIDIA-A100-80GB-PCIe",
    "gpu.replicas": "1",
}
SINGLE = {
    **COMMON,
    "gpu.count": "7",
    "gpu.engines.copy": "1",
    "gpu.engines.decoder": "0",
    "gpu.engines.encoder": "0",
    "gpu.engines.jpeg": "0",
    "gpu.engines.ofa": "0",
    "gpu.memory": "9728",
    "gpu.multiprocessors": "14",
    "gpu.product": "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb",
    "gpu.replicas": "1",
    "gpu.slices.ci": "1",
    "gpu.slices.gi": "1",
    "mig.strategy": "single",
}
MIXED = {
    **NONE,
    "gpu.replicas": "0",
    "mig-2g.20gb.count": "1",
    "mig-2g.20gb.engines.copy": "2",
    "mig-2g.20gb.engines.decoder": "1",
    "mig-2g.20gb.engines.encoder": "0",
    "mig-2g.20gb.engines.jpeg": "0",
    "mig-2g.20gb.engines.ofa": "0",
    "mig-2g.20gb.memory": "19968",
    "mig-2g.20gb.multiprocessors": "28",
    "mig-2g.20gb.product": "NVIDIA-A100-80GB-PCIe-MIG-2g.20gb",
    "mig-2g.20gb.replicas": "1",
    "mig-2g.20gb.slices.ci": "2",
    "mig-2g.20gb.slices.gi": "2",
    "mig.strategy": "mixed",
}
ADDED = {
    "cuda.driver-version.full",
    "cuda.driver-version.major",
    "cuda.driver-version.minor",
    "cuda.driver-version.revision",
    "cuda.runtime-version.full",
    "cuda.runtime-version.major",
    "cuda.runtime-version.minor",
    "gpu.machine",
    "gpu.mode",
    "gpu.sharing-strategy",
    "mps.capable",
}


def written(strategy: str, *gpus: Gpu, **replicas: int) -> t.Dict[str, str]:
    given = {"nvidia.com/" + name.replace("_", "-"): count for name, count in replicas.items()}
    found = labels.labels(Inventory("515.86.01", (11, 7), gpus), strategy, "Virtual Machine", {"0x030200"}, given)
    assert all(name.startswith("nvidia.com/") for name in found)
    return {name.partition("/")[2]: value for name, value in found.items()}


@pytest.mark.parametrize(
    ("strategy", "devices", "real", "added"),
    [
        ("none", None, NONE, ADDED),
        ("single", SEVEN, SINGLE, ADDED),
        ("mixed", [mig("2g.20gb", 5)], MIXED, {*ADDED, "mig-2g.20gb.sharing-strategy"}),
    ],
)
def test_labels_of_a_real_node(
    strategy: str, devices: t.Optional[t.Sequence[MigDevice]], real: t.Mapping[str, str], added: t.Collection[str]
) -> None:
    found = written(strategy, gpu(0, devices))
    assert {name: value for name, value in found.items() if name not in added} == real
    assert set(found) == {*real, *added}
    assert found["gpu.machine"] == "Virtual-Machine"
    assert found["gpu.mode"] == "compute"


def test_gpus_in_mig_mode_have_no_replicas_under_none() -> None:
    assert written("none", gpu(0, SEVEN))["gpu.replicas"] == "0"


@pytest.mark.parametrize("gpus", [[gpu(0, THREE)], [gpu(0, [])], [gpu(0, SEVEN), gpu(1)]])
def test_single_marks_unequal_devices_as_invalid(gpus: t.Sequence[Gpu]) -> None:
    found = written("single", *gpus)
    names = ("product", "count", "replicas", "memory")
    assert [found["gpu." + name] for name in names] == ["NVIDIA-A100-80GB-PCIe-MIG-INVALID", "0", "0", "0"]


def test_label_values_keep_no_forbidden_characters() -> None:
    found = written("mixed", gpu(0, [mig("1g.10gb+me", 9)]))
    assert found["mig-1g.10gb.me.product"] == "NVIDIA-A100-80GB-PCIe-MIG-1g.10gbme"


def test_labels_of_shared_devices() -> None:
    names = ("product", "count", "replicas", "sharing-strategy")
    found = written("single", gpu(0, SEVEN), gpu=4)
    expected = ["NVIDIA-A100-80GB-PCIe-MIG-1g.10gb-SHARED", "7", "4", "time-slicing"]
    assert [found["gpu." + name] for name in names] == expected
    # A GPU in MIG mode is not shared itself.
    found = written("mixed", gpu(0, SEVEN), gpu=4)
    assert [found["gpu." + name] for name in names] == ["NVIDIA-A100-80GB-PCIe", "1", "0", "none"]


def test_a_node_without_gpus_has_no_labels() -> None:
    assert written("mixed") == {}
