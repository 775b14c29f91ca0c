# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All errors in a layout: the message names the entry and a correction."""

from __future__ import annotations

import math
import time
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import board, gpu

GOOD = {"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}
A100 = board("A100-80GB")


def node() -> t.List[t.Any]:
    """Two A100 and a GPU without MIG."""
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "Tesla T4")
    return [
        gpu(
            A100,
            index=index,
            uuid="GPU-0000000%d-1111-2222-3333-444444444444" % index,
            pci_bus_id="00000000:%02X:00.0" % (0x47 + index),
            name=name,
            mig_capable=index < 2,
            pci_device_id=0x20B210DE if index < 2 else 0x1EB810DE,
        )
        for index, name in enumerate(names)
    ]


def entry(**changes: t.Any) -> t.Dict[str, t.Any]:
    return {key: value for key, value in dict(GOOD, **changes).items() if value is not ...}


def devices(value: t.Any) -> t.Dict[str, t.Any]:
    return entry(devices=value)


def holds(value: t.Any) -> t.Dict[str, t.Any]:
    return entry(mig_devices=value)


def line(**changes: t.Any) -> t.Dict[str, t.Any]:
    return holds([dict({"profile": "3g.40gb"}, **changes)])


# (second entry of a layout, its name in the message, the remedy in the message)
MALFORMED_ENTRIES: t.List[t.Tuple[t.Any, str, str]] = [
    # the entry itself
    (None, "entry 2 is null:", "write a mapping"),
    ("all", 'entry 2 is "all"', "write a mapping"),
    (7, "entry 2 is 7", "write a mapping"),
    ([GOOD], "entry 2 is [", "write a mapping"),
    ({}, "entry 2 has no devices", "add devices: all"),
    ({1: 2}, "entry 2 has the key 1", "write keys as strings"),
    ({True: "all"}, "entry 2 has the key true", "write keys as strings"),
    (dict(GOOD, device="all"), 'entry 2 (devices: "all")', "did you mean devices?"),
    (dict(GOOD, mig_device={}), 'entry 2 (devices: "all")', "did you mean mig_devices?"),
    (dict(GOOD, gpus=[0]), 'entry 2 (devices: "all")', "use devices, device_filter, mig_enabled, mig_devices"),
    (dict(GOOD, **{"mig-devices": {}}), "entry 2 has mig_devices in both spellings", "write one of them"),
    (dict(GOOD, **{"mig-enabled": True}), "entry 2 has mig_enabled in both spellings", "write one of them"),
    # mig_enabled
    (entry(mig_enabled=...), 'entry 2 (devices: "all") has no mig_enabled', "add mig_enabled: true"),
    (entry(mig_enabled=None), 'entry 2 (devices: "all") has no mig_enabled', "add mig_enabled: true"),
    (entry(mig_enabled="yes"), 'entry 2 (devices: "all")', "write true or false, without quotes"),
    (entry(mig_enabled="true"), 'entry 2 (devices: "all")', "write true or false, without quotes"),
    (entry(mig_enabled=1), 'entry 2 (devices: "all")', "write true or false, without quotes"),
    (entry(mig_enabled=[True]), 'entry 2 (devices: "all")', "write true or false, without quotes"),
    # devices
    (entry(devices=...), "entry 2 has no devices", "add devices: all"),
    (devices(None), "entry 2 (devices: null) has no devices", "add devices: all"),
    (devices(""), 'entry 2 (devices: "")', "write 'all', an index"),
    (devices("  "), 'entry 2 (devices: "  ")', "write 'all', an index"),
    (devices({}), "entry 2 (devices: {})", "write 'all', an index"),
    (devices({"index": 0}), 'entry 2 (devices: {"index": 0})', "write 'all', an index"),
    (devices(True), "entry 2 (devices: true)", "write 'all', an index"),
    (devices([None]), "entry 2 (devices: [null])", "write 'all', an index"),
    (devices([[0]]), "entry 2 (devices: [[0]])", "write 'all', an index"),
    (devices(-1), "entry 2 (devices: -1)", "GPU indices start at 0"),
    (devices([0, -2]), "entry 2 (devices: [0, -2])", "GPU indices start at 0"),
    (devices(2820.0), "entry 2 (devices: 2820.0)", "write a PCI bus id in quotes"),
    (devices([1.5]), "entry 2 (devices: [1.5])", "write a PCI bus id in quotes"),
    (devices("0"), 'entry 2 (devices: "0")', "write the index without quotes"),
    (devices(["1"]), 'entry 2 (devices: ["1"])', "write the index without quotes"),
    (devices("0,1"), 'entry 2 (devices: "0,1")', "write a list of indices"),
    (devices("0-3"), 'entry 2 (devices: "0-3")', "write a list of indices"),
    (devices("0, 1"), 'entry 2 (devices: "0, 1")', "write a list of indices"),
    (devices("All"), 'entry 2 (devices: "All")', "write devices: all, alone and in lower case"),
    (devices(" all"), 'entry 2 (devices: " all")', "write devices: all, alone and in lower case"),
    (devices(["all"]), 'entry 2 (devices: ["all"])', "write devices: all, alone and in lower case"),
    (devices(["all", 0]), 'entry 2 (devices: ["all", 0])', "write devices: all, alone and in lower case"),
    (devices("GPU-9f0cc172"), 'entry 2 (devices: "GPU-9f0cc172")', "write it in full"),
    (devices("GPU-"), 'entry 2 (devices: "GPU-")', "write it in full"),
    (devices("GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a6g"), "entry 2", "write it in full"),
    (devices("MIG-5c89852c-d268-5c1d-b2e1-9f1d0b8a6a6f"), "entry 2", "name its GPU"),
    (devices("47:00"), 'entry 2 (devices: "47:00")', "write domain:bus:device.function"),
    (devices("000:47:00.0"), 'entry 2 (devices: "000:47:00.0")', "write domain:bus:device.function"),
    (devices("00000000:47:00.8"), 'entry 2 (devices: "00000000:47:00.8")', "write domain:bus:device.function"),
    (devices("000000000:47:00.0"), 'entry 2 (devices: "000000000:47:00.0")', "write domain:bus:device.function"),
    (devices("A100* "), 'entry 2 (devices: "A100* ")', "write 'A100*'"),
    # device_filter
    (entry(device_filter=0x20B210DE), 'entry 2 (devices: "all")', "write it in quotes, '0x20B210DE'"),
    (entry(device_filter=True), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter="A100"), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter="0x20B2"), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter="20B210DE"), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter="0x20B210DE:"), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter="0x20B210DE:0x1"), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter=["0x20B210DE", "0xGGGGGGGG"]), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter=[None]), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    (entry(device_filter={}), 'entry 2 (devices: "all")', "write '0x<device><vendor>'"),
    # mig_devices as a whole
    (entry(mig_devices=...), 'entry 2 (devices: "all")', "add it, {} for no instances"),
    (holds(None), 'entry 2 (devices: "all")', "add it, {} for no instances"),
    (holds("3g.40gb"), 'entry 2 (devices: "all")', "write a mapping of profiles to counts"),
    (holds(7), 'entry 2 (devices: "all")', "write a mapping of profiles to counts"),
    (holds(True), 'entry 2 (devices: "all")', "write a mapping of profiles to counts"),
    (entry(mig_enabled=False), 'entry 2 (devices: "all")', "mig_devices lists instances: change one of them"),
    (
        entry(mig_enabled=False, mig_devices=[{"profile": "3g.40gb"}]),
        "entry 2",
        "mig_devices lists instances: change one of them",
    ),
    # the mapping form
    (holds({"3g.40gb": "2"}), 'entry 2 (devices: "all")', "write a whole number, without quotes"),
    (holds({"3g.40gb": 2.0}), 'entry 2 (devices: "all")', "write a whole number, without quotes or fraction"),
    (holds({"3g.40gb": True}), 'entry 2 (devices: "all")', "write a whole number"),
    (holds({"3g.40gb": None}), 'entry 2 (devices: "all")', "write a whole number"),
    (holds({"3g.40gb": {"count": 2}}), 'entry 2 (devices: "all")', "write a whole number"),
    (holds({"3g.40gb": math.nan}), 'entry 2 (devices: "all")', "write a whole number"),
    (holds({"3g.40gb": -1}), 'entry 2 (devices: "all")', "between 0 and 64"),
    (holds({"3g.40gb": 10**9}), 'entry 2 (devices: "all")', "between 0 and 64"),
    (holds({"1g.10gb.me": 1}), 'entry 2 (devices: "all")', "write '1g.10gb+me'"),
    (holds({"3G.40GB": 1}), 'entry 2 (devices: "all")', "write '3g.40gb'"),
    (holds({"3g": 1}), 'entry 2 (devices: "all")', "for example '3g.40gb'"),
    (holds({"": 1}), 'entry 2 (devices: "all")', "for example '3g.40gb'"),
    (holds({3: 1}), 'entry 2 (devices: "all")', "write it as a string"),
    (holds({None: 1}), 'entry 2 (devices: "all")', "write it as a string"),
    (holds({"4c.3g.40gb": 1}), 'entry 2 (devices: "all")', "write at most 3c"),
    (holds({"3g.40gb": 1, "MIG 3g.40gb": 1}), 'entry 2 (devices: "all")', "write it once"),
    (holds({"7g.80gb": 1, "7c.7g.80gb": 0}), 'entry 2 (devices: "all")', "write it once"),
    # the list form
    (holds(["3g.40gb"]), "item 1 of mig_devices", "write {profile: 3g.40gb}"),
    (holds([None]), "item 1 of mig_devices", "write a mapping"),
    (holds([["3g.40gb"]]), "item 1 of mig_devices", "write a mapping"),
    (holds([{}]), "item 1 of mig_devices has no profile", "profile: 3g.40gb"),
    (holds([{"3g.40gb": 1}]), "item 1 of mig_devices", "use profile, start, count, compute_instances"),
    (line(starts=4), "item 1 of mig_devices", "did you mean start?"),
    (line(compute_instance=["1c.3g.40gb"]), "item 1 of mig_devices", "did you mean compute_instances?"),
    (line(**{"compute-instances": [], "compute_instances": []}), "item 1 of mig_devices", "write one of them"),
    (line(profile=None), "item 1 of mig_devices", "write it as a string"),
    (line(profile="3g.40"), "item 1 of mig_devices", "for example '3g.40gb'"),
    (line(profile="1c.3g.40gb"), "item 1 of mig_devices", "profile: 3g.40gb and compute_instances: [1c.3g.40gb]"),
    (line(start="4"), "start in item 1 of mig_devices", "without quotes"),
    (line(start=True), "start in item 1 of mig_devices", "write the unit where it starts"),
    (line(start=-1), "start in item 1 of mig_devices", "write the unit where it starts"),
    (line(start=4.0), "start in item 1 of mig_devices", "write the unit where it starts"),
    (line(count="1"), "count in item 1 of mig_devices", "write a whole number"),
    (line(count=-1), "count in item 1 of mig_devices", "between 0 and 64"),
    (line(count=None), "count in item 1 of mig_devices", "write a whole number"),
    (line(start=0, count=2), "item 1 of mig_devices", "write one item for each start"),
    (
        holds([{"profile": "3g.40gb", "start": 4}, {"profile": "1g.10gb", "start": 4}]),
        "item 1 of mig_devices and item 2 of mig_devices both start at 4",
        "give each instance its own start",
    ),
    (line(compute_instances="1c.3g.40gb"), "item 1 of mig_devices", "write a list of names"),
    (line(compute_instances=None), "item 1 of mig_devices", "write a list of names"),
    (line(compute_instances=[]), "item 1 of mig_devices", "omit it for a single one with all slices"),
    (line(compute_instances=[1, 2]), "item 1 of mig_devices", "write it as a string"),
    (line(compute_instances=["1c"]), "item 1 of mig_devices", "'1c.3g.40gb'"),
    (line(compute_instances=["1c.3g.40gb"] * 4), "item 1 of mig_devices", "name fewer or smaller ones"),
    (line(compute_instances=["2c.3g.40gb", "2c.3g.40gb"]), "item 1 of mig_devices", "name fewer or smaller ones"),
    (line(compute_instances=["3g.40gb", "1c.3g.40gb"]), "item 1 of mig_devices", "name fewer or smaller ones"),
]

# (layout, remedy in the message)
MALFORMED_LAYOUTS: t.List[t.Tuple[t.Any, str]] = [
    (None, "write a list of entries"),
    ("all-1g.10gb", "write a list of entries"),
    ("- devices: all\n  mig_enabled: false\n", "pass it through from_yaml"),
    (7, "write a list of entries"),
    (True, "write a list of entries"),
    ([], "write at least one entry"),
    ({}, "write a list of entries"),
    (GOOD, "put a dash in front"),
    ({"devices": "all", "mig-enabled": True}, "put a dash in front"),
    ({"all-1g.10gb": [GOOD]}, "write a list of entries"),
    ({"version": "v1", "mig-configs": {"x": [GOOD]}}, "give it as config_file with config_name"),
]

# (entry that is invalid only for the node's GPUs, remedy in the message)
MISPLACED_ENTRIES: t.List[t.Tuple[t.Any, str]] = [
    (devices(7), "index 7 matches no GPU: use one of the GPUs that this node has: GPU 0 (GPU-0"),
    (devices([0, 3]), "index 3 matches no GPU: use one of"),
    (devices("H100*"), "product name H100* matches no GPU: use one of"),
    (devices("00000001:47:00.0"), "PCI bus id 00000001:47:00.0 matches no GPU: use one of"),
    (devices("GPU-ffffffff-1111-2222-3333-444444444444"), "matches no GPU: use one of"),
    (devices([0, "0000:47:00.0"]), "are the same GPU (GPU 0 (GPU-00000000-"),
    (devices(["0000:47:00.0", "GPU-00000000-1111-2222-3333-444444444444"]), "name each GPU once"),
    (devices(2), "set mig_enabled: false for it"),
    (devices("Tesla*"), "set mig_enabled: false for it"),
    (
        devices([0, 1, 2]),
        "GPU 2 (GPU-00000002-1111-2222-3333-444444444444, 00000000:49:00.0, Tesla T4) does not support MIG",
    ),
    (entry(device_filter="0x1EB810DE"), "none of the selected GPUs supports MIG: remove the entry"),
]

# (mig_devices that are invalid only for the GPU, words of the message)
UNKNOWN_PROFILES: t.List[t.Tuple[t.Any, str]] = [
    ({"1g.5gb": 7}, "use one of 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"),
    ({"1g.11gb": 1}, "use one of 1g.10gb"),
    ({"2g.20gb+me": 1}, "use one of 1g.10gb"),
    ({"1g.10gb-me": 1}, "use one of 1g.10gb"),
    ({"1c.3g.20gb": 1}, "use one of 1g.10gb"),
    ({"3c.4g.40gb": 1}, "use one of 1c.4g.40gb, 2c.4g.40gb, 4g.40gb"),
    ({"3g.40gb": 1, "3g.39gb": 1}, "both mean 3g.40gb on A100-80GB: write it once"),
    ({"1c.3g.40gb": 1, "1c.3g.39gb": 1}, "write it once"),
    ([{"profile": "3g.20gb"}], "use one of 1g.10gb"),
    ([{"profile": "3g.40gb", "start": 1}], "cannot start at 1 on A100-80GB: use one of 0, 4"),
    ([{"profile": "1g.10gb", "start": 7}], "use one of 0, 1, 2, 3, 4, 5, 6"),
    ([{"profile": "3g.40gb", "compute_instances": ["1c.2g.20gb"]}], "use names like 1c.3g.40gb"),
    ([{"profile": "4g.40gb", "compute_instances": ["1c.3g.40gb"]}], "use names like 1c.4g.40gb"),
    ([{"profile": "4g.40gb", "compute_instances": ["3c.4g.40gb"]}], "use one of 1c.4g.40gb, 2c.4g.40gb, 4g.40gb"),
]


def test_the_number_of_cases() -> None:
    cases = [MALFORMED_ENTRIES, MALFORMED_LAYOUTS, MISPLACED_ENTRIES, UNKNOWN_PROFILES]
    assert sum(map(len, cases)) >= 80
    assert len({repr(case) for group in cases for case in group}) == sum(map(len, cases))


@pytest.mark.parametrize("raw, where, remedy", MALFORMED_ENTRIES, ids=[repr(case[0]) for case in MALFORMED_ENTRIES])
def test_a_malformed_entry(raw: t.Any, where: str, remedy: str) -> None:
    with pytest.raises(LayoutError) as refused:
        layout.parse([GOOD, raw, GOOD])
    message = str(refused.value)
    assert "entry 2" in message
    assert where in message
    assert remedy in message
    assert "\n" not in message


@pytest.mark.parametrize("raw, remedy", MALFORMED_LAYOUTS, ids=[repr(case[0]) for case in MALFORMED_LAYOUTS])
def test_a_malformed_layout(raw: t.Any, remedy: str) -> None:
    with pytest.raises(LayoutError) as refused:
        layout.parse(raw)
    assert "the layout is" in str(refused.value)
    assert remedy in str(refused.value)


@pytest.mark.parametrize("raw, remedy", MISPLACED_ENTRIES, ids=[repr(case[0]) for case in MISPLACED_ENTRIES])
def test_an_entry_for_another_node(raw: t.Any, remedy: str) -> None:
    with pytest.raises(LayoutError) as refused:
        layout.parse([GOOD, raw]).resolve(node())
    assert str(refused.value).startswith("entry 2 (devices: ")
    assert remedy in str(refused.value)


@pytest.mark.parametrize("mig_devices, remedy", UNKNOWN_PROFILES, ids=[repr(case[0]) for case in UNKNOWN_PROFILES])
def test_an_entry_for_another_board(mig_devices: t.Any, remedy: str) -> None:
    request = layout.parse([GOOD, {"devices": [1], "mig_enabled": True, "mig_devices": mig_devices}]).resolve(node())[1]
    with pytest.raises(LayoutError) as refused:
        request.target(A100)
    message = str(refused.value)
    assert message.startswith("entry 2 (devices: [1]), GPU 1 (GPU-00000001-1111-2222-3333-444444444444, ")
    assert "mig_devices" in message
    assert remedy in message


def test_long_values_are_truncated_in_the_message() -> None:
    with pytest.raises(LayoutError) as refused:
        layout.parse([devices(list(range(500)) + [-1])])
    assert len(str(refused.value)) < 150


def nested() -> t.Any:
    """A value that is small in memory, but whose text is infinite."""
    value: t.Any = ["x"]
    for _level in range(30):
        value = [value] * 10
    return value


def containing_itself() -> t.Any:
    value: t.List[t.Any] = []
    value.append(value)
    return value


HUGE = {
    "nested": nested(),
    "nested in a mapping": {"a": nested()},
    "below a key that is not JSON": {("a", 1): nested()},
    "containing itself": containing_itself(),
    "integer": 16**5000,
    "negative integer": -(16**5000),
}


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("key", ["devices", "device_filter", "mig_enabled", "mig_devices"])
def test_a_huge_value_is_refused_early_with_a_short_message(key: str, value: str) -> None:
    huge = HUGE[value]
    for place in (huge, [huge], {"profile": huge}, [{"profile": huge}], {"3g.40gb": huge}):
        with pytest.raises(LayoutError) as refused:
            layout.parse([dict(GOOD, **{key: place})]).resolve(node())
        assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", HUGE)
def test_a_huge_layout_is_refused_early_with_a_short_message(value: str) -> None:
    with pytest.raises(LayoutError) as refused:
        layout.parse(HUGE[value])
    assert len(str(refused.value)) < 1000


def test_many_gpus_are_compared_in_reasonable_time() -> None:
    entries = [dict(GOOD, devices=["GPU-%08x-0000-0000-0000-000000000000" % number for number in range(50000)])]
    before = time.process_time()
    layout.parse(entries)
    assert time.process_time() - before < 10


def test_a_node_without_gpus_is_refused() -> None:
    with pytest.raises(LayoutError, match="entry 1 .*the driver lists no GPU on this node; check it"):
        layout.parse([GOOD]).resolve([])


def test_a_layout_for_other_boards_only_is_refused_with_the_present_ids() -> None:
    entries = [entry(device_filter="0x233010DE"), entry(device_filter=["0x290110DE"])]
    with pytest.raises(LayoutError) as refused:
        layout.parse(entries).resolve(node())
    assert "no entry of the layout selects a GPU of this node" in str(refused.value)
    assert "Tesla T4), 0x1EB810DE" in str(refused.value)


def test_unknown_profiles_are_not_reported_as_a_misspelling() -> None:
    request = layout.parse([GOOD]).resolve(node())[0]
    with pytest.raises(LayoutError, match="the driver lists no profiles .* turn MIG mode on first"):
        request.target(A100._replace(profiles=()))


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_PIECES = st.sampled_from(
    ["all", "A100*", "devices", "device_filter", "mig_enabled", "mig_devices", "mig-devices", "profile", "start"]
    + ["count", "compute_instances", "3g.40gb", "1c.3g.40gb", "0x20B210DE", "00000000:47:00.0", 0, 1, True, False]
)
_ANYTHING = st.recursive(
    _SCALARS | _PIECES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_PIECES | st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
_ENTRIES = st.fixed_dictionaries(
    {"devices": st.just("all") | _ANYTHING, "mig_enabled": st.booleans() | _ANYTHING, "mig_devices": _ANYTHING},
    optional={"device_filter": _ANYTHING},
)


@given(st.lists(_ENTRIES, max_size=3) | _ANYTHING)
def test_any_input_is_parsed_or_refused(data: t.Any) -> None:
    try:
        for request in layout.parse(data).resolve(node()).values():
            request.target(A100)
    except LayoutError as refused:
        assert str(refused)
