# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mig-parted documents: read like mig-parted does, and written so that they round-trip."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout, mig_parted
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.mig_parted import InstanceSpec
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import WHOLE, Gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import board, gpu

A100 = board("A100-40GB")

# The features of the format in mig-parted's documentation, in our own file.
DOCUMENT = """
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false

  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}

  all-1g.5gb:
    - devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb": 7

  all-1g.5gb.me:
    - device-filter: ["0x20B010DE", "0x20F110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb+me": 1

  # one entry for each kind of node; entries for missing boards have no effect
  all-balanced:
    - device-filter: ["0x20B010DE", "0x20B110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb": 2
        "2g.10gb": 1
        "3g.20gb": 1
    - device-filter: "0x233010DE"
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 2
        "2g.20gb": 1
        "3g.40gb": 1

  custom:
    - devices: [0, 1]
      mig-enabled: false
    - devices: [2]
      mig-enabled: true
      mig-devices:
        "3g.20gb": 2
    - devices: [3]
      mig-enabled: true
      mig-devices:
        "1c.3g.20gb": 2
        "2c.3g.20gb": 1
        "7g.40gb": 0
"""


def node() -> t.List[Gpu]:
    return [gpu(A100, index=index, pci_device_id=0x20B010DE, uuid="GPU-%d" % index) for index in range(4)]


def desired_instances(data: t.Any, name: t.Optional[str] = None) -> t.Dict[int, t.Any]:
    """The desired instances of each GPU of the node: None if MIG is off."""
    out: t.Dict[int, t.Any] = {}
    for index, request in mig_parted.parse(data, name).resolve(node()).items():
        target = request.target(A100)
        out[index] = [(w.profile.name, w.compute_instances) for w in target.instances] if target.enabled else None
    return out


ONE_G = ("1g.5gb", WHOLE)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("all-disabled", dict.fromkeys(range(4))),
        ("all-enabled", {index: [] for index in range(4)}),
        ("all-1g.5gb", {index: [ONE_G] * 7 for index in range(4)}),
        ("all-1g.5gb.me", {index: [("1g.5gb+me", WHOLE)] for index in range(4)}),
        (
            "all-balanced",
            {index: [("3g.20gb", WHOLE), ("2g.10gb", WHOLE), ONE_G, ONE_G] for index in range(4)},
        ),
        (
            "custom",
            {
                0: None,
                1: None,
                2: [("3g.20gb", WHOLE)] * 2,
                3: [("3g.20gb", (1,)), ("3g.20gb", (2, 1))],
            },
        ),
    ],
)
def test_a_document_as_yaml_and_as_json(name: str, expected: t.Dict[int, t.Any]) -> None:
    data = yaml.safe_load(DOCUMENT)
    assert desired_instances(data, name) == expected
    assert desired_instances(json.loads(json.dumps(data)), name) == expected


def test_messages_name_configuration_and_entry() -> None:
    data = {"version": "v1", "mig-configs": {"site": [{"devices": "all", "mig-enabled": True}]}}
    with pytest.raises(LayoutError, match='^configuration site, entry 1 .devices: "all".: .*add it'):
        mig_parted.parse(data, "site")


def test_messages_have_the_spelling_of_the_file_and_not_of_its_names() -> None:
    data = {"version": "v1", "mig-configs": {"mig_enabled": [{"devices": "all", "mig-enabled": True}]}}
    with pytest.raises(LayoutError, match="^configuration mig_enabled, entry 1 .*mig-enabled is true and mig-devices"):
        mig_parted.parse(data)


def test_the_only_configuration_needs_no_name() -> None:
    data = {"version": "v1", "mig-configs": {"site": [{"devices": "all", "mig-enabled": False}]}}
    assert desired_instances(data) == dict.fromkeys(range(4))


@pytest.mark.parametrize(
    "data, name, remedy",
    [
        (None, None, "write version: v1 and mig-configs at its top"),
        ([], None, "write version: v1 and mig-configs at its top"),
        ("version: v1", None, "write version: v1 and mig-configs at its top"),
        ({}, None, "add version: v1"),
        ({"mig-configs": {"x": []}}, None, "add version: v1"),
        ({"version": "v2", "mig-configs": {"x": []}}, None, "only version: v1 is supported"),
        ({"version": 1, "mig-configs": {"x": []}}, None, "only version: v1 is supported"),
        ({"version": "v1"}, None, "add at least one under mig-configs"),
        ({"version": "v1", "mig-configs": {}}, None, "add at least one under mig-configs"),
        ({"version": "v1", "mig-configs": []}, None, "add at least one under mig-configs"),
        ({"version": "v1", "mig-configs": None}, None, "add at least one under mig-configs"),
        ({"version": "v1", "mig-config": {"x": []}}, None, "did you mean mig-configs?): use version, mig-configs"),
        (
            {"version": "v1", "mig-configs": {"x": [{"devices": "all", "mig-enable": True}]}},
            None,
            "unknown key mig_enable (did you mean mig-enabled?): use devices, device-filter, mig-enabled, mig-devices",
        ),
        (
            {"version": "v1", "mig-configs": {"x": [{"devices": "all"}]}},
            None,
            "add mig-enabled: true or mig-enabled: false",
        ),
        ({"version": "v1", "mig-configs": {None: []}}, None, "write its name as a string"),
        ({"version": "v1", "mig-configs": {1: []}}, None, "configuration 1, the layout is empty"),
        ({"version": "v1", "mig-configs": {"x": []}}, "x", "configuration x, the layout is empty"),
        ({"version": "v1", "mig-configs": {"x": None}}, "x", "write a list of entries"),
        ({"version": "v1", "mig-configs": {"x": [7]}}, "x", "configuration x, entry 1 is 7: write a mapping"),
        (yaml.safe_load(DOCUMENT), None, "name one of all-1g.5gb, all-1g.5gb.me, all-balanced, all-disabled"),
        (yaml.safe_load(DOCUMENT), "all-2g.5gb", "did you mean all-1g.5gb?"),
        (yaml.safe_load(DOCUMENT), "", "use one of all-1g.5gb"),
        (yaml.safe_load(DOCUMENT), 7, "the name of a configuration cannot be 7: write it as a string"),
        (yaml.safe_load(DOCUMENT), ["all-balanced"], 'cannot be ["all-balanced"]: write it as a string'),
        (
            yaml.safe_load("version: v1\nmig-configs: {2026-02-28: []}"),
            None,
            "of type date: write its name as a string",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": DOCUMENT}},
            "all-balanced",
            "a Kubernetes ConfigMap, and the configurations are text in its data, under config.yaml: save that text as "
            "a file, for example with kubectl get configmap NAME -o jsonpath='{.data.config\\.yaml}', and give that "
            "file; or give the configuration in layout: "
            "\"{{ ((lookup('ansible.builtin.file', PATH) | from_yaml).data['config.yaml'] | from_yaml)",
        ),
        ({"kind": "ConfigMap", "data": {"b": "", "a": ""}}, None, "in its data, under a, b: save"),
        ({"kind": "ConfigMap", "data": None}, None, "ConfigMap without data"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, None, 'a Kubernetes object of the kind "List": give'),
    ],
)
def test_a_malformed_document(data: t.Any, name: t.Optional[str], remedy: str) -> None:
    with pytest.raises(LayoutError) as refused:
        mig_parted.parse(data, name)
    assert remedy in str(refused.value)


OFF: t.List[t.Any] = [{"devices": "all", "mig-enabled": False}]


def parsed(configurations: t.Any, name: t.Optional[str] = None) -> t.List[str]:
    """The warnings of a document."""
    warnings: t.List[str] = []
    mig_parted.parse({"version": "v1", "mig-configs": configurations}, name, warnings.append)
    return warnings


# The names that nvidia-mig-parted at bd7160f (2026-08-21) gives these keys.
@pytest.mark.parametrize(
    "key, name",
    [(7, "7"), (1.1, "1.1"), (1e6, "1e+06"), (1000.0, "1000"), (True, "true"), (False, "false"), (0x10, "16")],
)
def test_the_name_of_a_configuration_may_be_a_number(key: t.Any, name: str) -> None:
    assert parsed({"a": OFF, key: OFF}, "a") == []
    assert parsed({"a": OFF, key: OFF}, name) == []
    assert parsed({key: OFF}) == []


def test_configurations_with_the_same_name_are_a_warning() -> None:
    (warning,) = parsed({1: [], "1": OFF, "a": OFF}, "1")
    assert warning == "the last of several configurations with the name 1 applies: remove the others"


def test_errors_of_configurations_that_are_not_selected_are_one_warning() -> None:
    (warning,) = parsed({"a": OFF, "b": [], "c": [{"devices": "all"}], "d": None}, "a")
    assert warning.startswith("configurations that are not selected are invalid: configuration b, the layout is empty")
    assert '; configuration c, entry 1 (devices: "all") has no mig-enabled' in warning
    assert "; configuration d, the layout is null" in warning


@pytest.mark.parametrize(
    "entry, words",
    [
        ({"devices": "all", "mig_enabled": False}, "it reads mig-enabled, not mig_enabled"),
        (
            {"devices": "all", "mig_enabled": True, "mig_devices": {}},
            "it reads mig-devices, mig-enabled, not mig_devices, mig_enabled",
        ),
        ({"devices": 1, "mig-enabled": False}, "entry 1: devices is neither all nor a list of indices"),
        ({"devices": ["A100*"], "mig-enabled": False}, "entry 1: devices is neither all nor a list of indices"),
        (
            {"devices": "all", "mig-enabled": True, "mig-devices": [{"profile": "1g.5gb"}]},
            "entry 1: mig-devices is a list",
        ),
    ],
)
def test_what_only_this_collection_accepts_is_a_warning(entry: t.Any, words: str) -> None:
    for selected in ("site", "other"):
        (warning,) = parsed({"site": [entry], "other": OFF}, selected)
        assert warning.startswith("nvidia-mig-parted itself rejects the file: ")
        assert words in warning


def test_keys_of_the_document_in_the_spelling_of_this_collection_are_a_warning() -> None:
    warnings: t.List[str] = []
    mig_parted.parse({"version": "v1", "mig_configs": {"a": OFF}}, "a", warnings.append)
    assert warnings == ["nvidia-mig-parted itself rejects the file: it reads mig-configs, not mig_configs"]


def test_warnings_of_the_selected_configuration_name_it() -> None:
    entries = [dict(OFF[0], devices=[]), dict(OFF[0], devices=[0, 0])]
    assert [text.split(":")[0] for text in parsed({"a": entries, "b": entries}, "a")] == [
        "configuration a, entry 1 (devices",
        "configuration a, entry 2 (devices",
    ]


def test_the_example_of_the_documentation_has_no_warning() -> None:
    assert parsed(yaml.safe_load(DOCUMENT)["mig-configs"], "custom") == []


def test_the_list_of_configurations_is_truncated() -> None:
    names = ["configuration-%06d" % number for number in range(100000)]
    data = {"version": "v1", "mig-configs": dict.fromkeys([*names, "x" * 10000], [])}
    for name in (None, "configuration-x", "y" * 10000):
        with pytest.raises(
            LayoutError, match="of configuration-000000, configuration-000001, .* and 99981 more$"
        ) as refused:
            mig_parted.parse(data, name)
        assert len(str(refused.value)) < 1500
    with pytest.raises(LayoutError) as refused:
        mig_parted.parse(data, "x" * 10000)
    assert len(str(refused.value)) < 1500


def test_gpus_with_equal_instances_share_an_entry() -> None:
    seven = [InstanceSpec("1g.5gb", 1, (1,))] * 7
    entries = mig_parted.from_gpus({0: seven, 2: [], 1: seven, 3: None, 4: None})
    assert entries == [
        {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
        {"devices": [2], "mig-enabled": True, "mig-devices": {}},
        {"devices": [3, 4], "mig-enabled": False},
    ]
    assert mig_parted.document("x", entries) == {"version": "v1", "mig-configs": {"x": entries}}


def test_what_a_document_cannot_express_is_refused() -> None:
    one = InstanceSpec("3g.20gb", 3, (1,))
    with pytest.raises(LayoutError, match="GPU 5: .* would pack them into the fewest: use instances that are full"):
        mig_parted.from_gpus({5: [one, one]})
    with pytest.raises(LayoutError, match="GPU 5: .* no compute instance: apply a layout to the GPU first"):
        mig_parted.from_gpus({5: [one._replace(compute_instances=())]})


def written(entries: t.List[t.Any]) -> t.List[t.Any]:
    return mig_parted.from_layout(layout.parse(entries))


def test_a_layout_for_any_node() -> None:
    entries: t.List[t.Any] = [
        {"devices": "all", "mig_enabled": True, "mig_devices": {"1g.5gb": 7, "2g.10gb": 0}},
        {"devices": 3, "mig_enabled": False},
        {
            "devices": [1, 2],
            "device_filter": "0x20b010de:0x147f10de",
            "mig_enabled": True,
            "mig_devices": [
                {"profile": "3g.20gb", "start": 4},
                {"profile": "3g.20gb", "compute_instances": ["1c.3g.20gb", "2c.3g.20gb"]},
            ],
        },
    ]
    assert written(entries) == [
        {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
        {"devices": [3], "mig-enabled": False},
        {
            "devices": [1, 2],
            "mig-enabled": True,
            "mig-devices": {"1c.3g.20gb": 1, "2c.3g.20gb": 1, "3g.20gb": 1},
            "device-filter": ["0x20B010DE:0x147F10DE"],
        },
    ]


@pytest.mark.parametrize("devices", ["A100*", "00000000:47:00.0", "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"])
def test_a_document_for_any_node_names_gpus_by_index_only(devices: str) -> None:
    with pytest.raises(LayoutError, match="entry 1 .*pass the GPUs of the node"):
        written([{"devices": devices, "mig_enabled": False}])


_COUNTS = st.dictionaries(
    st.sampled_from([p.name for p in A100.profiles] + ["1c.3g.20gb", "2c.3g.20gb", "1c.4g.20gb", "2c.4g.20gb"]),
    st.integers(1, 3),
)
_ENTRIES = st.lists(
    st.fixed_dictionaries({"devices": st.lists(st.integers(0, 3), min_size=1, unique=True), "mig_devices": _COUNTS}),
    min_size=1,
    max_size=4,
)


@given(_ENTRIES)
def test_a_document_round_trips_to_the_layout(entries: t.List[t.Any]) -> None:
    for entry in entries:
        entry["mig_enabled"] = True
    before = layout.parse(entries).resolve(node())
    document = mig_parted.document("x", written(entries))
    after = mig_parted.parse(json.loads(json.dumps(document)), "x").resolve(node())
    assert {i: r.target(A100) for i, r in before.items()} == {i: r.target(A100) for i, r in after.items()}


_PARTS = {
    1: [(1,)],
    2: [(2,), (1,), (1, 1)],
    3: [(3,), (1,), (1, 1), (2,), (2, 1), (1, 1, 1)],
    4: [(4,), (2, 2), (2, 1, 1)],
}
_HELD = st.sampled_from(A100.profiles[:6]).flatmap(
    lambda profile: st.sampled_from(_PARTS[profile.slices]).map(
        lambda parts: InstanceSpec(profile.name, profile.slices, parts)
    )
)


def _read_back(entries: t.List[t.Any]) -> t.List[InstanceSpec]:
    (request,) = layout.parse(entries).resolve(node()).values()
    return sorted(InstanceSpec(w.profile.name, w.profile.slices, w.slices) for w in request.target(A100).instances)


@given(st.lists(_HELD, max_size=5))
def test_a_document_is_refused_exactly_if_it_would_not_round_trip(instances: t.List[InstanceSpec]) -> None:
    counts = Counter(
        one.profile if size == one.slices else "%dc.%s" % (size, one.profile)
        for one in instances
        for size in one.compute_instances
    )
    naive = [{"devices": [0], "mig-enabled": True, "mig-devices": dict(counts)}]
    if _read_back(naive) == sorted(instances):
        assert mig_parted.from_gpus({0: instances}) == naive
    else:
        with pytest.raises(LayoutError):
            mig_parted.from_gpus({0: instances})
