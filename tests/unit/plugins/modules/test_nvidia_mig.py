# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig from options to result, on a node in memory."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from ansible_collections.gpufleet.node.plugins.modules import nvidia_mig
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    H100,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    off,
    on,
    places,
    refused,
    warnings,
    without_ids,
)

# --- applying layouts: check mode, real run, and both again


@pytest.mark.parametrize("board", ["a100", "h100"])
def test_check_mode_reports_the_changes_of_a_real_run(node, board):
    gpu = FakeGpu() if board == "a100" else FakeGpu(board=H100)
    small, large = gpu.board.profiles[0].name, gpu.board.profiles[2].name
    for _start in range(4):
        gpu.add(small, _start)
    driver = node(gpu)
    wanted = on({large: 1, small: 3})

    checked = driver.run(wanted, check=True)
    assert driver.writes == []
    done = driver.run(wanted)
    assert checked["changed"] and done["changed"]
    assert checked["operations"] == done["operations"]
    assert checked["diff"] == done["diff"]
    before, after = (done["diff"][each].rstrip("\n") for each in ("before", "after"))
    assert checked["changed_lines"] == done["changed_lines"] == ["-" + before, "+" + after]
    assert [without_ids(item) for item in checked["gpus"]] == [without_ids(item) for item in done["gpus"]]

    for again in (driver.run(wanted, check=True), driver.run(wanted)):
        assert again["changed"] is False
        assert again["operations"] == []
        assert again["diff"]["before"] == again["diff"]["after"] == done["diff"]["after"]
        assert again["changed_lines"] == []


def test_results_list_kept_created_and_destroyed_instances(node):
    gpu = FakeGpu()
    gpu.add("1g.5gb", 0)
    gpu.add("2g.10gb", 2)
    (found,) = node(gpu).run(on(MIXED))["gpus"]
    assert found["index"] == 0
    assert found["uuid"] == gpu.uuid
    assert found["pci_bus_id"] == "00000000:07:00.0"
    assert found["mode"] == {"before": True, "desired": True, "current": True, "pending": True}
    assert places(found["kept"]) == ["1g.5gb at 0:1"]
    assert places(found["destroyed"]) == ["2g.10gb at 2:2"]
    assert places(found["created"]) == ["1g.5gb at 1:1", "3g.20gb at 4:4"]
    assert found["created"][1] == {
        "id": 2,
        "profile": "3g.20gb",
        "start": 4,
        "size": 4,
        "compute_instances": [{"id": 0, "profile": "3g.20gb", "slices": 3, "uuid": "MIG-0-2-0"}],
    }


def test_in_check_mode_new_instances_have_no_id(node):
    (found,) = node(FakeGpu()).run(on([{"profile": "3g.20gb", "compute_instances": ["1c.3g.20gb"]}]), check=True)[
        "gpus"
    ]
    (created,) = found["created"]
    assert created["id"] is None
    assert created["compute_instances"] == [{"id": None, "profile": "1c.3g.20gb", "slices": 1, "uuid": None}]


def test_compute_instances_change_inside_an_instance_that_is_kept(node):
    gpu = FakeGpu()
    gpu.add("3g.20gb", 4, cis=(1, 1))
    wanted = on([{"profile": "3g.20gb", "compute_instances": ["1c.3g.20gb", "2c.3g.20gb"]}])
    driver = node(gpu)
    checked, done = driver.run(wanted, check=True), driver.run(wanted)
    assert checked["operations"] == done["operations"]
    (found,) = done["gpus"]
    assert (found["created"], found["destroyed"]) == ([], [])
    assert sorted(ci["profile"] for ci in found["kept"][0]["compute_instances"]) == ["1c.3g.20gb", "2c.3g.20gb"]
    assert {operation["kind"] for operation in done["operations"]} == {
        "create_compute_instance",
        "destroy_compute_instance",
    }


def test_a_compute_instance_with_fewer_multiprocessors_is_named_and_recreated(node):
    """A 1g.20gb created by another tool may have the smaller of the two kinds."""
    gpu = FakeGpu(board=H100)
    gpu.add("1g.20gb", 2, slices=1, reduced=True)
    gpu.add("1g.20gb", 4, slices=1)
    driver = node(gpu)
    checked, done = driver.run(on({"1g.20gb": 2}), check=True), driver.run(on({"1g.20gb": 2}))
    assert checked["diff"] == done["diff"] and "|1g.20gb[1c]" in done["diff"]["before"]
    assert checked["operations"] == done["operations"]
    assert [(operation["kind"], operation["profile"]) for operation in done["operations"]] == [
        ("destroy_compute_instance", "1c.1g.20gb"),
        ("create_compute_instance", "1g.20gb"),
    ]
    (foretold,) = driver.run(on({"1g.20gb": 1, "1c.1g.20gb": 1}), check=True)["gpus"]
    names = [ci["profile"] for one in foretold["kept"] + foretold["created"] for ci in one["compute_instances"]]
    assert sorted(names) == ["1c.1g.20gb", "1g.20gb"]
    back = driver.run(on({"1g.20gb": 1, "1c.1g.20gb": 1}))
    (found,) = back["gpus"]
    assert sorted(one["compute_instances"][0]["profile"] for one in found["kept"]) == ["1c.1g.20gb", "1g.20gb"]
    assert driver.run(on({"1g.20gb": 1, "1c.1g.20gb": 1}))["changed"] is False


def test_operations_are_named(node):
    gpu = FakeGpu(mode=False)
    assert node(gpu).run(on({"1g.5gb": 1}))["operations"] == [
        {"gpu": 0, "kind": "set_mode", "profile": None, "placement": None, "enabled": True},
        {"gpu": 0, "kind": "create_gpu_instance", "profile": "1g.5gb", "placement": "6:1", "enabled": None},
        {"gpu": 0, "kind": "create_compute_instance", "profile": "1g.5gb", "placement": "6:1", "enabled": None},
    ]


def test_gpus_without_an_entry_are_unchanged(node):
    other = FakeGpu(index=1)
    other.add("1g.5gb", 0)
    result = node(FakeGpu(), other).run(on(MIXED, devices=[0]))
    assert [gpu["index"] for gpu in result["gpus"]] == [0]
    assert len(other.instances) == 1


def test_turning_mig_off_destroys_the_instances(node):
    gpu = FakeGpu()
    gpu.add("1g.5gb", 0)
    result = node(gpu).run(off(), reset=True)
    assert result["changed"]
    assert places(result["gpus"][0]["destroyed"]) == ["1g.5gb at 0:1"]
    assert result["gpus"][0]["mode"] == {"before": True, "desired": False, "current": False, "pending": False}
    assert "MIG off" in result["diff"]["after"]


@pytest.mark.parametrize(
    ("current", "entry", "disruption"),
    [
        ([], on({"1g.5gb": 1}), "create"),
        (["1g.5gb"], on({"1g.5gb": 1}), "none"),
        (["1g.5gb"], on({"7g.40gb": 1}), "destroy"),
        ([], off(), "mode"),
    ],
)
def test_the_disruption_and_the_gpus_that_do_not_match(node, current, entry, disruption):
    gpu = FakeGpu()
    for start, profile in enumerate(current):
        gpu.add(profile, start)
    driver = node(gpu)
    checked = driver.run(entry, check=True)
    assert checked["disruption"] == disruption
    assert [text[:6] for text in checked["unmatched"]] == ([] if disruption == "none" else ["GPU 0 "])
    done = driver.run(entry)
    assert (done["disruption"], done["unmatched"]) == (disruption, [])
    assert driver.run(entry)["disruption"] == "none"


def test_gpus_are_read_in_parallel(node):
    """A slow driver call delays the node once: all GPUs are in it at the same time."""
    gpus = [FakeGpu(index=index) for index in range(4)]
    driver = node(*gpus)
    together = threading.Barrier(4, timeout=10)
    driver.before = lambda name: together.wait() if name == "read" else None
    result = driver.run(on({}), check=True)
    assert [gpu["index"] for gpu in result["gpus"]] == [0, 1, 2, 3]


# --- refusals: before the first write, with all problems


def test_a_malformed_layout_is_refused(node):
    message = refused(node(FakeGpu()), {"devices": "all", "mig_enabled": True, "mig_devicez": {}})
    assert "entry 1" in message
    assert "mig_devicez" in message
    assert "mig_devices" in message


def test_an_unknown_profile_is_refused_with_the_supported_ones(node):
    message = refused(node(FakeGpu()), on({"3g.40gb": 1}))
    assert "entry 1" in message
    assert "3g.40gb" in message
    assert "1g.5gb, 2g.10gb, 3g.20gb" in message


def test_gpus_with_the_same_problem_share_a_line(node):
    gpus = [FakeGpu(index=index) for index in range(3)] + [FakeGpu(index=3, board=H100)]
    message = refused(node(*gpus), on({"7g.40gb": 1, "1g.5gb": 1}, devices=[0, 1, 2]), on({"7g.80gb": 2}, devices=[3]))
    first, second = message.splitlines()
    assert first.startswith("entry 1 (devices: [0, 1, 2]), GPUs 0, 1, 2 (NVIDIA A100-SXM4-40GB): ")
    assert second.startswith(
        "entry 2 (devices: [3]), GPU 3 (%s, 00000000:0A:00.0, NVIDIA H100 80GB HBM3): " % gpus[3].uuid
    )


def test_no_gpu_is_changed_if_one_is_refused(node):
    good, bad = FakeGpu(index=0), FakeGpu(index=1)
    bad.add("7g.40gb", 0)
    bad.use(0, 0, 4711, "python")
    message = refused(node(good, bad), on(MIXED))
    assert message.startswith("GPU 1 ")
    assert "PID 4711 (python)" in message


def test_instances_of_a_gpu_that_has_left_the_layout_are_reported(node):
    driver = node(FakeGpu(), FakeGpu(index=1))
    first = on(MIXED, devices=0)
    assert warnings(driver.run(first, whole_node=True)) == []  # the other GPU has none
    driver.run(on(MIXED))
    assert warnings(driver.run(first)) == []  # another task may configure the other GPU
    (warning,) = warnings(driver.run(first, whole_node=True))
    assert (
        warning.startswith("GPU 1 ") and "is not in the layout, and has 3 GPU instances. It keeps them until" in warning
    )


# --- options


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "one of the following is required: layout, config_file"),
        ({"layout": [off()], "config_file": "/x"}, "parameters are mutually exclusive: layout|config_file"),
        ({"layout": [off()], "config_name": "x"}, "missing parameter(s) required by 'config_name': config_file"),
        ({"layout": [off()], "backend": "dcgm"}, "value of backend must be one of: auto, nvml, nvidia_smi, got: dcgm"),
    ],
)
def test_mutually_exclusive_options(node, options, words):
    result = node(FakeGpu()).run(**options)
    assert result["failed"] is True
    assert words in result["msg"]


CONFIG = {
    "version": "v1",
    "mig-configs": {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "all-balanced": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 2, "3g.20gb": 1}}],
    },
}


@pytest.mark.parametrize("name", ["all-balanced", "all-disabled"])
def test_a_configuration_in_json(node, tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    (gpu,) = node(FakeGpu()).run(config_file=str(path), config_name=name)["gpus"]
    assert gpu["mode"]["current"] is (name == "all-balanced")
    assert len(gpu["created"]) == (3 if name == "all-balanced" else 0)


@pytest.mark.parametrize("check", [True, False])
def test_a_layout_that_selects_no_gpu_changes_nothing(node, check):
    driver = node(FakeGpu())
    result = driver.run(off([]), check=check)
    assert not result["changed"] and result["gpus"] == [] and driver.writes == []
    assert "entry 1 (devices: []): devices is an empty list, which selects no GPU" in warnings(result)[0]


# --- one run at a time


def test_a_held_lock_times_out_with_its_holder(node, tmp_path):
    path = tmp_path / "lock"
    path.write_text("PID 4711 (Ansible module nvidia_mig), user root, since today")
    with open(path, "r+b") as other_run:
        fcntl.flock(other_run, fcntl.LOCK_EX)
        for check in (False, True):
            message = refused(node(FakeGpu()), on(MIXED), lock_wait=0, check=check)
            assert "PID 4711" in message
            assert "lock_wait" in message
    assert node(FakeGpu()).run(on(MIXED), lock_wait=0)["changed"] is True


def test_check_mode_leaves_no_lock_file(node, tmp_path):
    driver = node(FakeGpu())
    driver.run(on(MIXED), check=True)
    assert not os.path.exists(tmp_path / "lock")
    driver.run(on(MIXED))
    assert os.path.exists(tmp_path / "lock")


# --- the cost of a run without changes

NO_CHANGE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import nvidia_mig
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import FakeBackend, FakeGpu
gpu = FakeGpu()
for start in range(7):
    gpu.add("1g.5gb", start)
driver = FakeBackend(gpu)
driver.open()
wanted = layout.parse([{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.5gb": 7}}])
node = nvidia_mig.plan_node(driver, wanted, disturb=True, reset=False)
[result] = nvidia_mig._converge(driver, node, reset=False, check_mode=False, ending=nvidia_mig.signals.Ending())
assert not driver.writes and not result.gpu["changed"], result
print(" ".join(name.rpartition(".")[2] for name in sys.modules if ".module_utils._" in name))
"""


def test_a_run_that_changes_nothing_loads_only_what_it_needs():
    """A module's files are compiled on every run: Python cannot cache them."""
    root = nvidia_mig.__file__.split("/ansible_collections/", maxsplit=1)[0]
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", NO_CHANGE, root], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    assert {"mig", "nvml", "layout", "results"} <= set(loaded)
    needless = {"smi", "smi_log", "smi_tables", "config", "mig_parted"}  # other inputs
    needless |= {"plan", "solve", "explain", "compute"}  # planning a change
    needless |= {"converge_node", "converge", "rollback", "journal", "reset"}  # applying it
    needless |= {"mode", "messages"}
    assert needless.isdisjoint(loaded)
