# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layouts: which GPUs an entry selects, which entry applies, and what it means on a board."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout, selector
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import WHOLE, Gpu, Target
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import board, gpu

A100 = board("A100-80GB")
H100 = board("H100-80GB")
OFF = {"mig_enabled": False}
EMPTY = {"mig_enabled": True, "mig_devices": {}}


def node() -> t.List[Gpu]:
    """Two A100, one H100, and a GPU without MIG."""
    out = []
    for index, (on, name, device_id, subsystem_id) in enumerate(
        (
            (A100, "NVIDIA A100-SXM4-80GB", 0x20B210DE, 0x147F10DE),
            (A100, "NVIDIA A100 80GB PCIe", 0x20B510DE, 0x153310DE),
            (H100, "NVIDIA H100 80GB HBM3", 0x233010DE, 0x16C110DE),
            (A100, "Tesla T4", 0x1EB810DE, 0x12A210DE),
        )
    ):
        out.append(
            gpu(
                on,
                index=index,
                uuid="GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd" % index,
                pci_bus_id="0000000%d:4A:00.0" % index,
                name=name,
                pci_device_id=device_id,
                pci_subsystem_id=subsystem_id,
                mig_capable=index < 3,
            )
        )
    return out


def named(**entry: t.Any) -> t.List[int]:
    """The indices of the GPUs that an entry selects."""
    return list(layout.parse([dict(OFF, **entry)]).resolve(node()))


@pytest.mark.parametrize(
    "devices, indices",
    [
        ("all", [0, 1, 2, 3]),
        (0, [0]),
        ([2, 0], [0, 2]),
        ("GPU-00000001-aaaa-bbbb-cccc-dddddddddddd", [1]),
        ("gpu-00000001-AAAA-bbbb-cccc-dddddddddddd", [1]),
        ("00000002:4A:00.0", [2]),
        ("0002:4a:00.0", [2]),
        ("4a:00.0", [0]),
        (["0001:4A:00.0", 3], [1, 3]),
        ("NVIDIA A100-SXM4-80GB", [0]),
        ("A100-SXM4-80GB", [0]),
        ("A100*", [0, 1]),
        ("nvidia a100*", [0, 1]),
        ("*80GB*", [0, 1, 2]),
        ("Tesla T?", [3]),
        ("[AH]100*", [0, 1, 2]),
        (["A100*", "H100*"], [0, 1, 2]),
        (["A100*", "*PCIe"], [0, 1]),
        ([0, "A100*"], [0, 1]),
        ("*", [0, 1, 2, 3]),
    ],
)
def test_devices(devices: t.Any, indices: t.List[int]) -> None:
    assert named(devices=devices) == indices


@pytest.mark.parametrize(
    "device_filter, indices",
    [
        (None, [0, 1, 2, 3]),
        ("", [0, 1, 2, 3]),
        ([], [0, 1, 2, 3]),
        ("0x20B210DE", [0]),
        ("0x20b210de", [0]),
        (["0x20B210DE", "0x20B510DE"], [0, 1]),
        ("0x20B210DE:0x147F10DE", [0]),
        (["0x20B210DE:0x147f10de", "0x20B510DE:0x00000000"], [0]),
    ],
)
def test_device_filter(device_filter: t.Any, indices: t.List[int]) -> None:
    assert named(devices="all", device_filter=device_filter) == indices
    assert named(devices="all", **{"device-filter": device_filter}) == indices


def test_devices_and_filter_must_both_match() -> None:
    assert named(devices=[0, 2], device_filter="0x233010DE") == [2]


def test_an_entry_for_a_missing_board_is_ignored() -> None:
    entries = [dict(OFF, devices="all", device_filter="0x290110DE"), dict(OFF, devices=[1])]
    assert list(layout.parse(entries).resolve(node())) == [1]


def test_gpus_without_an_entry_are_absent() -> None:
    assert list(layout.parse([dict(EMPTY, devices=[1])]).resolve(node())) == [1]


def test_all_skips_gpus_without_mig() -> None:
    on = layout.parse([dict(EMPTY, devices="all")]).resolve(node())
    assert list(on) == [0, 1, 2]
    off = layout.parse([dict(OFF, devices="all")]).resolve(node())
    assert off[3].target(A100) == Target(False)


def test_later_entries_win() -> None:
    requests = layout.parse(
        [
            {"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}},
            {"devices": "H100*", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}},
            dict(OFF, devices=1),
        ]
    ).resolve(node())
    assert list(requests) == [0, 1, 2]
    assert [len(requests[index].target(A100).instances) for index in (0, 1, 2)] == [7, 0, 1]
    assert requests[1].where == "entry 3 (devices: 1)"
    assert not requests[1].enabled


def test_a_gpu_without_mig_may_be_named_if_a_later_entry_overrides_it() -> None:
    entries = [dict(EMPTY, devices=[0, 3]), dict(OFF, devices=3)]
    assert [request.enabled for request in layout.parse(entries).resolve(node()).values()] == [True, False]


def target(mig_devices: t.Any, on: t.Any = A100) -> t.List[t.Tuple[str, t.Optional[int], t.Tuple[int, ...]]]:
    request = layout.parse([{"devices": 0, "mig_enabled": True, "mig_devices": mig_devices}]).resolve(node())[0]
    found = request.target(on)
    assert found.enabled
    return [(desired.profile.name, desired.start, desired.compute_instances) for desired in found.instances]


@pytest.mark.parametrize(
    "mig_devices, instances",
    [
        ({}, []),
        ([], []),
        ({"3g.40gb": 0}, []),
        ({"3g.40gb": 0, "1g.10gb": 1}, [("1g.10gb", None, WHOLE)]),
        ([{"profile": "3g.40gb", "start": 4, "count": 0}], []),
        ({"1g.10gb": 2, "3g.40gb": 1}, [("3g.40gb", None, WHOLE), ("1g.10gb", None, WHOLE), ("1g.10gb", None, WHOLE)]),
        ({"7c.7g.79gb": 1}, [("7g.80gb", None, WHOLE)]),
        ({"MIG 1g.10gb+me": 1}, [("1g.10gb+me", None, WHOLE)]),
        # compute instances by name are packed into the fewest GPU instances
        ({"1c.3g.40gb": 1}, [("3g.40gb", None, (1,))]),
        ({"1c.3g.40gb": 2}, [("3g.40gb", None, (1, 1))]),
        ({"1c.3g.40gb": 4}, [("3g.40gb", None, (1,)), ("3g.40gb", None, (1, 1, 1))]),
        ({"1c.3g.40gb": 1, "2c.3g.40gb": 1}, [("3g.40gb", None, (2, 1))]),
        ({"2c.3g.40gb": 2}, [("3g.40gb", None, (2,)), ("3g.40gb", None, (2,))]),
        ({"3g.40gb": 1, "1c.3g.40gb": 1}, [("3g.40gb", None, (1,)), ("3g.40gb", None, WHOLE)]),
        ({"1c.4g.40gb": 2, "2c.4g.40gb": 1, "1c.3g.39gb": 1}, [("4g.40gb", None, (2, 1, 1)), ("3g.40gb", None, (1,))]),
        ({"4c.7g.80gb": 1, "3c.7g.80gb": 1}, [("7g.80gb", None, (4, 3))]),
        ({"2c.7g.80gb": 3, "1c.7g.80gb": 1}, [("7g.80gb", None, (2, 2, 2, 1))]),
        ({"1c.1g.10gb": 1}, [("1g.10gb", None, WHOLE)]),
        # the list form is explicit
        (
            [{"profile": "3g.40gb", "count": 2, "compute_instances": ["1c.3g.40gb"]}],
            [("3g.40gb", None, (1,)), ("3g.40gb", None, (1,))],
        ),
        (
            [
                {"profile": "3g.39gb", "start": 4},
                {"profile": "3g.40gb", "compute-instances": ["1c.3g.39gb", "2c.3g.40gb"]},
            ],
            [("3g.40gb", 4, WHOLE), ("3g.40gb", None, (2, 1))],
        ),
        ([{"profile": "3g.40gb", "compute_instances": ["3c.3g.40gb"]}], [("3g.40gb", None, WHOLE)]),
        ([{"profile": "3g.40gb", "start": None}], [("3g.40gb", None, WHOLE)]),
        ([{"profile": "1g.10gb"}, {"profile": "1g.10gb"}], [("1g.10gb", None, WHOLE), ("1g.10gb", None, WHOLE)]),
    ],
)
def test_mig_devices(mig_devices: t.Any, instances: t.List[t.Any]) -> None:
    assert target(mig_devices) == instances


def test_several_sizes_use_as_few_instances_as_possible() -> None:
    """2c can start at 0, 2 and 4 of a 7g and 3c at 0 and 4, so 3c, 2c and 2c fill it."""
    assert target({"3c.7g.80gb": 1, "2c.7g.80gb": 2}) == [("7g.80gb", None, (3, 2, 2))]


_LINES = st.lists(
    st.fixed_dictionaries(
        {"profile": st.sampled_from([p.name for p in A100.profiles]), "count": st.integers(0, 3)},
        optional={"start": st.none()},
    ),
    max_size=6,
)


@given(lines=_LINES, data=st.data())
def test_the_order_of_lines_does_not_matter(lines: t.List[t.Any], data: t.Any) -> None:
    assert target(data.draw(st.permutations(lines))) == target(lines)


_COUNTS = st.dictionaries(
    st.sampled_from([p.name for p in A100.profiles] + ["1c.3g.40gb", "2c.3g.40gb", "1c.4g.40gb", "2c.4g.40gb"]),
    st.integers(0, 4),
)


@given(counts=_COUNTS, data=st.data())
def test_the_order_of_counts_does_not_matter(counts: t.Dict[str, int], data: t.Any) -> None:
    shuffled = dict(data.draw(st.permutations(list(counts.items()))))
    assert target(shuffled) == target(counts)


@given(counts=_COUNTS)
def test_the_requested_compute_instances_are_created(counts: t.Dict[str, int]) -> None:
    got: t.Dict[str, int] = {}
    for name, _start, compute in target(counts):
        whole = next(p.slices for p in A100.profiles if p.name == name)
        for slices in compute or (whole,):
            key = name if slices == whole else "%dc.%s" % (slices, name)
            got[key] = got.get(key, 0) + 1
    assert got == {name: count for name, count in counts.items() if count}


@given(
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(0, 7),
    st.booleans(),
)
def test_a_bus_id_has_one_normal_form(domain: int, bus: int, device: int, function: int, upper: bool) -> None:
    nvml = "%08X:%02X:%02X.%X" % (domain, bus, device, function)
    normal = selector.normal_bus_id(nvml)
    assert selector.normal_bus_id(normal) == normal == nvml.lower()
    forms = [nvml if upper else nvml.lower()]
    if domain <= 0xFFFF:
        forms.append("%04x:%02x:%02x.%x" % (domain, bus, device, function))
    if domain == 0:
        forms.append("%02x:%02x.%x" % (bus, device, function))
    assert {selector.normal_bus_id(form) for form in forms} == {normal}


# --- accepted as nvidia-mig-parted accepts it, with a warning


@pytest.mark.parametrize(
    "devices, indices, warning",
    [
        ([0, 1, 0, 0], [0, 1], "entry 1 (devices: [0, 1, 0, 0]): devices names index 0 twice: name each GPU once"),
        ([1, 0, 1, 0], [0, 1], "devices names index 0, index 1 twice"),
        (["0000:4A:00.0", "00000000:4a:00.0"], [0], "devices names PCI bus id 00000000:4a:00.0 twice"),
        (["A100*", "a100*"], [0, 1], "devices names product name a100* twice"),
        (
            ["GPU-00000001-AAAA-bbbb-cccc-dddddddddddd", "gpu-00000001-aaaa-bbbb-cccc-dddddddddddd"],
            [1],
            "devices names UUID GPU-00000001-aaaa-bbbb-cccc-dddddddddddd twice",
        ),
        ([], [], "entry 1 (devices: []): devices is an empty list, which selects no GPU: name at least one GPU, or"),
    ],
)
def test_a_likely_mistake_is_a_warning(devices: t.List[t.Any], indices: t.List[int], warning: str) -> None:
    found = layout.parse([dict(OFF, devices=devices)])
    (text,) = found.warnings
    assert warning in text
    assert list(found.resolve(node())) == indices


def test_an_entry_without_gpus_has_no_effect_on_others() -> None:
    entries = [dict(OFF, devices=[]), dict(OFF, devices=[2]), dict(EMPTY, devices=[])]
    found = layout.parse(entries)
    assert list(found.resolve(node())) == [2]
    assert [text.split(":")[0] for text in found.warnings] == ["entry 1 (devices", "entry 3 (devices"]


def test_gpus_without_mig_are_one_error() -> None:
    gpus = [one._replace(mig_capable=one.index == 0) for one in node()]
    errors: t.List[str] = []
    desired = layout.parse([dict(EMPTY, devices=[0, 1, 2, 3])]).resolve(
        gpus, (), lambda error: errors.append(str(error))
    )
    assert list(desired) == [0]
    (error,) = errors
    assert (
        "GPUs 1, 2, 3 (NVIDIA A100 80GB PCIe, NVIDIA H100 80GB HBM3, Tesla T4) do not support MIG: remove them" in error
    )
