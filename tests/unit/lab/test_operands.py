# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for the device plugin and GPU feature discovery: resources, configuration, allocations, labels."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from operands import config_manager, labels, plugin_config, resources
from operands.gpus import Gpu, Inventory, MigDevice
from operands.plugin_config import Config, Replicated, Sharing

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
MINORS = {"gpu0/gi7/access": 66, "gpu0/gi7/ci0/access": 67}


def offered(strategy: str, *gpus: Gpu) -> t.Dict[str, t.List[str]]:
    found = resources.resources(gpus, strategy, {})
    return {name: [device.id for device in devices] for name, devices in found.items()}


def test_mixed_offers_a_resource_per_profile_and_the_other_gpus() -> None:
    found = offered("mixed", gpu(0, [*THREE, mig("1g.10gb+me", 12)]), gpu(1))
    assert found == {
        "nvidia.com/gpu": ["GPU-1"],
        "nvidia.com/mig-1g.10gb": ["MIG-1g.10gb-13-0"],
        "nvidia.com/mig-1g.10gb.me": ["MIG-1g.10gb+me-12-0"],
        "nvidia.com/mig-2g.20gb": ["MIG-2g.20gb-5-0"],
        "nvidia.com/mig-3g.40gb": ["MIG-3g.40gb-1-0"],
    }


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


def test_device_nodes_of_a_mig_device() -> None:
    (device,) = resources.resources([gpu(0, SEVEN[:1])], "mixed", MINORS)["nvidia.com/mig-1g.10gb"]
    caps = "/dev/nvidia-caps/nvidia-cap"
    assert device.nodes == ["/dev/nvidia0", caps + "66", caps + "67"]


def test_minors_are_read_from_the_driver_s_list() -> None:
    assert resources.read_minors("config 1\nmonitor 2\ngpu0/gi7/access 66\n") == {
        "config": 1,
        "monitor": 2,
        "gpu0/gi7/access": 66,
    }


DEVICES = [resources.Device("MIG-a", ["/dev/nvidia0"]), resources.Device("MIG-b", ["/dev/nvidia0"])]
QUALIFIED = ["k8s.device-plugin.nvidia.com/gpu=MIG-a", "k8s.device-plugin.nvidia.com/gpu=MIG-b"]


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        (["envvar"], resources.Allocation(envs={"NVIDIA_VISIBLE_DEVICES": "MIG-a,MIG-b"})),
        (
            ["cdi-annotations"],
            resources.Allocation(annotations={"cdi.k8s.io/nvidia-device-plugin_1": ",".join(QUALIFIED)}),
        ),
        (["cdi-cri"], resources.Allocation(cdi_devices=QUALIFIED)),
    ],
)
def test_allocation_by_device_list_strategy(strategies: t.Sequence[str], expected: resources.Allocation) -> None:
    assert resources.allocate(DEVICES, strategies, False, "1", "cdi.k8s.io/") == expected


def test_allocation_with_device_nodes() -> None:
    made = resources.allocate(DEVICES, ["envvar"], True, "1", "")
    assert made.nodes == [*resources.SHARED_NODES, "/dev/nvidia0"]


def test_replicas_of_a_device_are_one_device_in_a_container() -> None:
    replicas = [resources.Device("MIG-a::%d" % number, ["/dev/nvidia0"]) for number in (0, 3)]
    made = resources.allocate(replicas, ["envvar", "cdi-cri"], False, "1", "")
    assert made.envs == {"NVIDIA_VISIBLE_DEVICES": "MIG-a"}
    assert made.cdi_devices == QUALIFIED[:1]


def test_allocation_with_mps() -> None:
    made = resources.with_mps(resources.Allocation(envs={"A": "1"}), "nvidia.com/gpu", "/run/nvidia/mps")
    assert made.envs == {"A": "1", "CUDA_MPS_PIPE_DIRECTORY": "/mps/nvidia.com/gpu/pipe"}
    assert made.mounts == {
        "/mps/nvidia.com/gpu/pipe": "/run/nvidia/mps/nvidia.com/gpu/pipe",
        "/dev/shm": "/run/nvidia/mps/shm",
    }


def test_preferred_devices_include_the_required_ones() -> None:
    assert resources.preferred(["c", "a", "b"], ["c"], 2) == ["c", "a"]


def test_preferred_replicas_are_spread_over_devices() -> None:
    free = ["a::0", "a::1", "b::0", "b::1", "b::2"]
    assert resources.preferred(free, [], 1) == ["b::0"]
    assert resources.preferred(free, [], 3) == ["b::0", "a::0", "b::1"]


def test_settings_of_the_plugin() -> None:
    assert resources.settings({}) == resources.Settings("none", ["envvar"], False, "cdi.k8s.io/")
    given = {"MIG_STRATEGY": "mixed", "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri", "PASS_DEVICE_SPECS": "true"}
    assert resources.settings(given) == resources.Settings("mixed", ["cdi-annotations", "cdi-cri"], True, "cdi.k8s.io/")
    for wrong in ({"DEVICE_LIST_STRATEGY": "env"}, {"DEVICE_ID_STRATEGY": "index"}):
        with pytest.raises(resources.Invalid):
            resources.settings(wrong)


# --- Configuration files ----------------------------------------------------------------------------------------------

FULL = "nvidia.com/gpu"


def parsed(strategy: str = "timeSlicing", **section: t.Any) -> Config:
    return plugin_config.parse(yaml.safe_dump({"sharing": {strategy: section}}))


def gpus_times(replicas: t.Any = 4) -> t.List[t.Dict[str, t.Any]]:
    return [{"name": FULL, "replicas": replicas}]


@pytest.mark.parametrize("text", ["", "version: v1", "sharing: {}", "sharing: {mps: null}", "unknown: 1"])
def test_a_file_without_sharing(text: str) -> None:
    assert plugin_config.parse(text) == Config()


def test_time_slicing() -> None:
    assert parsed(resources=gpus_times()).sharing == Sharing("time-slicing", [Replicated(FULL, FULL, 4)])
    found = parsed(resources=gpus_times(), renameByDefault=True, failRequestsGreaterThanOne=True).sharing
    assert found == Sharing("time-slicing", [Replicated(FULL, FULL + ".shared", 4)], one_only=True)
    assert parsed(resources=[{"name": "gpu", "replicas": 2}]).sharing.of(FULL)


def test_mps_takes_priority_and_one_replica_for_each_container() -> None:
    both = {"mps": {"resources": gpus_times()}, "timeSlicing": {"resources": gpus_times(2)}}
    found = plugin_config.parse(yaml.safe_dump({"sharing": both})).sharing
    assert found == Sharing("mps", [Replicated(FULL, FULL, 4)], one_only=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: v2", "unknown version: v2"),
        ("[]", "must be a mapping"),
        ("a: b: c", "error parsing config file"),
        ("sharing: {timeSlicing: null}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: []}}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: [{replicas: 2}]}}", "no resource name specified"),
        ("sharing: {timeSlicing: {resources: [{name: gpu}]}}", "no replicas specified"),
        ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}", "must be >= 2"),
        ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: '2'}]}}", "must be an integer"),
        ("sharing: {mps: {resources: [{name: amd.com/gpu, replicas: 2}]}}", "incorrect format"),
        ("sharing: {mps: {resources: [{name: mig-1g.10gb+me, replicas: 2}]}}", "incorrect format"),
        ("sharing: {mps: {resources: [{name: %s, replicas: 2}]}}" % ("a" * 64), "63 characters or less"),
        ("sharing: {mps: {renameByDefault: 1, resources: [{name: gpu, replicas: 2}]}}", "must be a bool"),
    ],
)
def test_invalid_files(text: str, reason: str) -> None:
    with pytest.raises(resources.Invalid, match=reason):
        plugin_config.parse(text)


def test_devices_and_names_in_the_file_are_ignored_with_a_warning() -> None:
    entry = {**gpus_times()[0], "devices": [0], "rename": "nvidia.com/mine"}
    found = parsed(resources=[entry])
    assert found.sharing.resources == [Replicated(FULL, FULL, 4)]
    assert ["'devices'" in found.warnings[0], "'rename'" in found.warnings[1]] == [True, True]


def test_variables_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("flags: {migStrategy: mixed, plugin: {deviceListStrategy: [cdi-cri], passDeviceSpecs: true}}")
    found = plugin_config.load({"CONFIG_FILE": str(file), "MIG_STRATEGY": "single"}).settings
    assert resources.settings(found) == resources.Settings("single", ["cdi-cri"], True, "cdi.k8s.io/")
    with pytest.raises(resources.Invalid, match="error opening config file"):
        plugin_config.load({"CONFIG_FILE": str(tmp_path / "missing")})


def replicas_of(config: Config, strategy: str, *gpus: Gpu) -> t.Dict[str, t.List[str]]:
    found = plugin_config.shared(resources.resources(gpus, strategy, {}), config)
    return {name: [device.id for device in devices] for name, devices in found.items()}


def test_replicas_of_devices() -> None:
    config = parsed(resources=[{"name": FULL, "replicas": 2}, {"name": "mig-7g.80gb", "replicas": 2}])
    assert replicas_of(config, "mixed", gpu(0, SEVEN[:1]), gpu(1)) == {
        FULL: ["GPU-1::0", "GPU-1::1"],
        "nvidia.com/mig-1g.10gb": ["MIG-1g.10gb-7-0"],
    }
    renamed = parsed(resources=gpus_times(2), renameByDefault=True)
    assert replicas_of(renamed, "none", gpu(0)) == {FULL + ".shared": ["GPU-0::0", "GPU-0::1"]}
    twice = parsed(resources=[*gpus_times(2), *gpus_times(3)])
    assert replicas_of(twice, "none", gpu(0)) == {FULL: ["GPU-0::0", "GPU-0::1", "GPU-0::2"]}


@pytest.mark.parametrize(
    ("settings", "strategy", "gpus", "reason"),
    [
        ({"MPS_ROOT": "/mps", "MIG_STRATEGY": "mixed"}, "mixed", [gpu(0)], "mixed is not supported with MPS"),
        ({"MPS_ROOT": "/mps", "MIG_STRATEGY": "single"}, "single", [gpu(0, SEVEN)], "not supported for MIG devices"),
        ({}, "none", [gpu(0)], "requires --mps-root"),
    ],
)
def test_what_the_plugin_does_not_share_through_mps(
    settings: t.Mapping[str, str], strategy: str, gpus: t.Sequence[Gpu], reason: str
) -> None:
    with pytest.raises(resources.Invalid, match=reason):
        replicas_of(parsed("mps", resources=gpus_times())._replace(settings=settings), strategy, *gpus)


def test_mps_shares_whole_gpus() -> None:
    config = parsed("mps", resources=gpus_times(2))._replace(settings={"MPS_ROOT": "/mps"})
    assert replicas_of(config, "single", gpu(0)) == {FULL: ["GPU-0::0", "GPU-0::1"]}


@pytest.mark.parametrize(
    ("files", "label", "default", "fallbacks", "expected"),
    [
        (["a", "b"], "a", "b", ["named"], "a"),
        (["a", "b"], "", "b", ["named"], "b"),
        (["a", "default"], "", "", ["single", "named"], "default"),
        (["a"], "", "", ["named", "single"], "a"),
        (["a", "b"], "", "", ["named", "empty"], ""),
        (["a", "b"], "c", "b", ["named"], None),  # does not use the default
        (["a", "b"], "", "c", ["empty"], None),
        (["a", "b"], "", "", ["named", "single"], None),
        (["a", "b"], "", "", ["other"], None),
        ([], "", "", ["empty"], None),
    ],
)
def test_selection_of_the_file(
    files: t.Sequence[str], label: str, default: str, fallbacks: t.Sequence[str], expected: t.Optional[str]
) -> None:
    if expected is None:
        with pytest.raises(resources.Invalid):
            config_manager.selected(files, label, default, fallbacks)
    else:
        assert config_manager.selected(files, label, default, fallbacks) == expected


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


NOT_SHARED = Sharing()


def written(strategy: str, *gpus: Gpu, sharing: Sharing = NOT_SHARED) -> t.Dict[str, str]:
    found = labels.labels(Inventory("515.86.01", (11, 7), gpus), strategy, "Virtual Machine", {"0x030200"}, sharing)
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


SHARING_LABELS = ("product", "count", "replicas", "sharing-strategy")


@pytest.mark.parametrize(
    ("strategy", "devices", "resource", "product", "count"),
    [
        ("none", None, "gpu", "NVIDIA-A100-80GB-PCIe", "1"),
        ("single", SEVEN, "gpu", "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb", "7"),
        ("mixed", SEVEN, "mig-1g.10gb", "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb", "7"),
    ],
)
def test_labels_of_shared_devices(
    strategy: str, devices: t.Optional[t.Sequence[MigDevice]], resource: str, product: str, count: str
) -> None:
    for rename, expected in ((False, product + "-SHARED"), (True, product)):
        given = [{"name": resource, "replicas": 4}]
        found = written(strategy, gpu(0, devices), sharing=parsed(resources=given, renameByDefault=rename).sharing)
        assert [found["%s.%s" % (resource, name)] for name in SHARING_LABELS] == [expected, count, "4", "time-slicing"]
        assert found["mps.capable"] == "false"


def test_gpus_in_mig_mode_are_not_labelled_as_shared() -> None:
    found = written("mixed", gpu(0, SEVEN), sharing=parsed(resources=gpus_times()).sharing)
    assert [found["gpu." + name] for name in SHARING_LABELS] == ["NVIDIA-A100-80GB-PCIe", "1", "0", "none"]


def test_labels_with_mps() -> None:
    sharing = parsed("mps", resources=gpus_times()).sharing
    found = written("none", gpu(0), sharing=sharing)
    assert (found["mps.capable"], found["gpu.sharing-strategy"]) == ("true", "mps")
    with pytest.raises(resources.Invalid, match="not supported for mig devices"):
        written("none", gpu(0), gpu(1, SEVEN), sharing=sharing)


def test_a_node_without_gpus_has_no_labels() -> None:
    assert written("mixed") == {}
