# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ConfigMap and the labels for the operator's MIG manager."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.module_utils._mig.mig_parted import parse
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu

LAYOUT = [
    {"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}},
    {"devices": 1, "mig_enabled": False},
]
ENTRIES = [
    {"devices": [0, 2], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}},
    {"devices": [1], "mig-enabled": False},
]
HOST = Host("a", gpus=[gpu(0), gpu(1), gpu(2)], layout=LAYOUT)


def test_each_gpu_is_in_one_entry() -> None:
    """mig-parted applies every entry that matches a GPU, so that later ones would undo earlier ones in each run."""
    assert mig_configs.layout_entries(HOST) == ENTRIES


def test_uuids_become_indices() -> None:
    uuid = gpu(1)["uuid"]
    host = HOST._replace(layout=[{"devices": uuid, "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}])
    assert mig_configs.layout_entries(host) == [{"devices": [1], "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}]


def test_the_name_is_about_the_content() -> None:
    name = mig_configs.config_name(ENTRIES)
    assert name == mig_configs.config_name(mig_configs.layout_entries(HOST))
    assert name != mig_configs.config_name(ENTRIES[:1])
    assert name == "gpufleet-eb33f5b885bc"  # nodes have it as a label: another one would relabel them all


def data(*names: str) -> t.Dict[str, t.Any]:
    document = {"version": "v1", "mig-configs": {name: copy.deepcopy(ENTRIES) for name in names}}
    return {"data": {"config.yaml": yaml.safe_dump(document)}}


def test_the_config_map_is_a_mig_parted_file() -> None:
    found = mig_configs.config_map({"gpufleet-1": ENTRIES}, None, ())
    document = yaml.safe_load(found["config.yaml"])
    assert list(document["mig-configs"]) == ["gpufleet-1"]
    assert len(parse(document, "gpufleet-1").entries) == 2
    assert found["config.yaml"] == yaml.safe_dump(document, default_flow_style=None)


def names(found: t.Mapping[str, str]) -> t.List[str]:
    return list(yaml.safe_load(found["config.yaml"])["mig-configs"])


@pytest.mark.parametrize("existing", [None, {}, {"data": None}, {"data": {}}, {"data": {"config.yaml": ""}}])
def test_a_config_map_without_configurations(existing: t.Any) -> None:
    assert names(mig_configs.config_map({"gpufleet-1": ENTRIES}, existing, ())) == ["gpufleet-1"]


def test_configurations_are_kept_because_another_run_may_be_about_to_use_them() -> None:
    found = mig_configs.config_map({"gpufleet-1": ENTRIES}, data("gpufleet-2"), ())
    assert names(found) == ["gpufleet-1", "gpufleet-2"]
    assert found == mig_configs.config_map({"gpufleet-1": ENTRIES}, {"data": found}, ())


def test_configurations_of_a_large_config_map_are_kept() -> None:
    former = data("gpufleet-2")
    former["data"]["config.yaml"] += "# " + "a" * 500000
    assert names(mig_configs.config_map({"gpufleet-1": ENTRIES}, former, ())) == ["gpufleet-1", "gpufleet-2"]


@pytest.mark.parametrize("text", ["a: {b: 2026-02-30, 60: 1:1, <<: {c: yes}}", "a: &x [1]\nb: *x", "1: '1'"])
def test_configurations_of_others_are_kept_as_they_are_written(text: str) -> None:
    former = {"data": {"config.yaml": "mig-configs:\n  %s" % text.replace("\n", "\n  ")}}
    found = mig_configs.config_map({}, former, ())["config.yaml"]
    written, before = (yaml.load(each, Loader=yaml.BaseLoader) for each in (found, former["data"]["config.yaml"]))
    assert written["mig-configs"] == before["mig-configs"]


def test_former_configurations_that_do_not_fit_are_kept_if_a_label_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    former, desired = data("gpufleet-2", "gpufleet-3"), {"gpufleet-1": ENTRIES}
    kept = mig_configs.config_map(desired, data("gpufleet-3"), ())
    monkeypatch.setattr(mig_configs, "_LIMIT", len(kept["config.yaml"]))
    assert mig_configs.config_map(desired, former, {"gpufleet-3", None, "all-disabled"}) == kept
    assert mig_configs.config_map(desired, {"data": kept}, ()) == kept
    with pytest.raises(Refusal, match="ConfigMap gpufleet-mig-configs would exceed the limit of Kubernetes, 1 MiB"):
        mig_configs.config_map(desired, former, {"gpufleet-2", "gpufleet-3"})


@pytest.mark.parametrize(
    "text",
    [
        *("a: [", "1", "[" * 10000, "a: {}", "mig-configs: []", "mig-configs: {[a]: 1}", 'a: "\\UFFFFFFFF"'),
        "mig-configs: {a: %s%s}" % ("[" * 480, "]" * 480),
    ],
)
def test_a_damaged_config_map_is_not_replaced(text: str) -> None:
    with pytest.raises(Refusal, match="not a file of mig-parted: correct its key config.yaml, or delete it and run"):
        mig_configs.config_map({"gpufleet-1": ENTRIES}, {"data": {"config.yaml": text}}, ())


@pytest.mark.parametrize(
    ("labels", "changed"),
    [
        ({}, True),
        ({"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"}, True),
        ({"nvidia.com/mig.config": "x", "nvidia.com/mig.config.state": "success"}, False),
        ({"nvidia.com/mig.config": "x", "nvidia.com/mig.config.state": "pending"}, False),
        ({"nvidia.com/mig.config": "x"}, False),
        ({"nvidia.com/mig.config": "x", "nvidia.com/mig.config.state": "failed"}, False),
    ],
)
def test_a_change_of_the_label_removes_the_old_state(labels: t.Dict[str, str], changed: bool) -> None:
    wanted = {"nvidia.com/mig.config": "x", "nvidia.com/mig.config.state": None} if changed else {}
    assert mig_configs.label_patch(labels, "x") == wanted


def test_labels_are_removed_only_if_they_exist() -> None:
    assert mig_configs.label_removal({"a": "b"}) == {}
    assert mig_configs.label_removal({"nvidia.com/mig.config": "x"}) == {
        "nvidia.com/mig.config": None,
        "nvidia.com/mig.config.state": None,
    }
