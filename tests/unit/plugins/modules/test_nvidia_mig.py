# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig from options to result, on a node in memory."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading

import hypothesis
import hypothesis.strategies as st
import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import select
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.modules import nvidia_mig
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeBackend,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules import module_support

MIXED = {"3g.20gb": 1, "1g.5gb": 2}


@pytest.fixture(name="node")
def fixture_node(tmp_path, monkeypatch):
    """Runs the module on GPUs: ``node(gpu, ...)`` gives a driver, ``driver.run(...)`` a result."""

    class Node(FakeBackend):
        def opened(self):
            self.open()
            return self

        def run(self, *entries, check=False, diff=False, **options):
            options.setdefault("lock_path", str(tmp_path / "lock"))
            if entries:
                options["layout"] = list(entries)
            monkeypatch.setattr(select, "open_backend", lambda _choice: self.opened())
            return module_support.run(nvidia_mig.main, check=check, diff=diff, **options)

    return Node


def on(mig_devices, devices="all"):
    return {"devices": devices, "mig_enabled": True, "mig_devices": mig_devices}


def off(devices="all"):
    return {"devices": devices, "mig_enabled": False}


def places(instances):
    return ["%s at %d:%d" % (item["profile"], item["start"], item["size"]) for item in instances]


def without_ids(gpu):
    def bare(instances):
        return [
            dict(item, id=None, compute_instances=[dict(ci, id=None, uuid=None) for ci in item["compute_instances"]])
            for item in instances
        ]

    return dict(gpu, mode=None, kept=bare(gpu["kept"]), created=bare(gpu["created"]), destroyed=bare(gpu["destroyed"]))


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


# --- changes of MIG mode that need a reset or a reboot


def pending(index=0):
    return FakeGpu(index=index, mode=False, activation=codes.RESET_REQUIRED)


def test_a_mode_change_that_needs_a_reset_is_reported_and_is_not_a_failure(node):
    driver = node(pending())
    result = driver.run(on(MIXED))
    assert "failed" not in result
    assert result["reset_required"] is True
    assert result["reboot_required"] is False
    assert result["gpus"][0]["reset_required"] is True
    assert result["gpus"][0]["mode"] == {"before": False, "desired": True, "current": False, "pending": True}
    assert [operation["kind"] for operation in result["operations"]] == ["set_mode"]
    (warning,) = warnings(result)
    assert "reset: true" in warning

    again = driver.run(on(MIXED))
    assert again["changed"] is False
    assert again["reset_required"] is True


def warnings(result):
    """In ansible-core 2.19 a warning has more fields than its text."""
    return [item if isinstance(item, str) else item["event"]["msg"] for item in result.get("warnings", [])]


def test_with_permission_the_gpu_is_reset(node):
    result = node(pending()).run(on(MIXED), reset=True)
    assert "reset" in [operation["kind"] for operation in result["operations"]]
    assert result["reset_required"] is False
    assert len(result["gpus"][0]["created"]) == 3


def test_a_gpu_that_cannot_be_reset_needs_a_reboot(node):
    gpu = pending()
    gpu.reset_error = codes.NOT_SUPPORTED
    result = node(gpu).run(on(MIXED), reset=True)
    assert "failed" not in result
    assert result["reboot_required"] is True
    assert result["reset_required"] is False


@pytest.mark.parametrize("reset", [False, True])
def test_check_mode_detects_that_a_process_blocks_the_mode_change(node, reset):
    gpu = pending()
    gpu.use(pid=4711, name="python")
    driver = node(gpu)
    checked, done = driver.run(on(MIXED), check=True, reset=reset), driver.run(on(MIXED), reset=reset)
    for result in (checked, done):
        assert result["changed"] is True
        assert result["reset_required"] is True
        assert [operation["kind"] for operation in result["operations"]] == ["set_mode"]
        assert result["gpus"][0]["created"] == []
        assert result["gpus"][0]["clients"] == [{"pid": 4711, "name": "python"}]
        assert "PID 4711 (python)" in warnings(result)[0]
        assert "MIG off, on after a reset" in result["diff"]["after"]
    again = driver.run(on(MIXED), check=True, reset=reset)
    assert again["changed"] is False
    assert again["reset_required"] is True


def test_a_reset_applies_a_pending_mode_change(node):
    driver = node(pending())
    driver.run(on(MIXED))
    for check in (True, False):
        refused_reset = driver.run(on(MIXED), check=check)
        assert refused_reset["reset_required"] is True
        assert refused_reset["operations"] == []
    checked, done = driver.run(on(MIXED), check=True, reset=True), driver.run(on(MIXED), reset=True)
    assert checked["changed"] and done["changed"]
    assert checked["operations"] == done["operations"]
    assert [operation["kind"] for operation in done["operations"]][0] == "reset"
    assert checked["diff"] == done["diff"]
    assert done["reset_required"] is False


def test_instances_are_not_destroyed_for_a_blocked_mode_change(node):
    gpu = FakeGpu()
    gpu.add("1g.5gb", 0)
    gpu.use(pid=4711, name="nvidia-persistenced")
    driver = node(gpu)
    for result in (driver.run(off(), check=True), driver.run(off())):
        assert result["changed"] is False
        assert result["operations"] == []
        assert result["reset_required"] is True
        assert places(result["gpus"][0]["kept"]) == ["1g.5gb at 0:1"]
        blocked = "  blocked by PID 4711 (nvidia-persistenced)\n"
        assert result["diff"]["after"] == result["diff"]["before"].replace("\n", blocked)


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


def test_a_refusal_that_appears_only_with_mig_on_leaves_the_node_unchanged(node):
    silent, other = FakeGpu(mode=False, tells_profiles=False), FakeGpu(index=1, mode=False, tells_profiles=False)
    plain = FakeGpu(index=2)
    plain.add("1g.5gb", 0)
    driver = node(silent, other, plain)
    result = driver.run(on(MIXED, devices=[0]), on({"4g.20gb": 1, "1g.5gb": 4}, devices=[1]), on(MIXED, devices=[2]))
    assert result["failed"] is True
    assert result["changed"] is False
    assert "entry 2 (devices: [1]), GPU 1" in result["msg"]
    assert "is off again" in result["msg"]
    notes = [text for text in warnings(result) if "is unchanged, because the layout of another GPU is rejected" in text]
    assert [text.split(" (", 1)[0] for text in notes] == ["GPU 0", "GPU 2"]
    assert [text[:6] for text in result["unmatched"]] == ["GPU 0 ", "GPU 1 ", "GPU 2 "]
    assert [gpu.current for gpu in (silent, other)] == [False, False]
    assert set(driver.writes) == {"set_mode"}


def test_gpus_are_read_in_parallel(node):
    """A slow driver call delays the node once: all GPUs are in it at the same time."""
    gpus = [FakeGpu(index=index) for index in range(4)]
    driver = node(*gpus)
    together = threading.Barrier(4, timeout=10)
    driver.before = lambda name: together.wait() if name == "read" else None
    result = driver.run(on({}), check=True)
    assert [gpu["index"] for gpu in result["gpus"]] == [0, 1, 2, 3]


@pytest.fixture(name="clients")
def fixture_clients(tmp_path, monkeypatch):
    """The record of units that the role stopped, and the systemctl calls that start units."""
    from ansible.module_utils.basic import AnsibleModule

    class Clients:
        record = tmp_path / "record"
        started = []

    def systemctl(_module, arguments, **_options):
        if arguments[1] == "start":
            Clients.started.append(arguments[2])
        return (3 if arguments[1] == "is-active" else 0), "", ""

    Clients.record.write_text(json.dumps({"stopped": ["dcgm.service", "nvsm.service"]}))
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: "/bin/" + name)
    monkeypatch.setattr(AnsibleModule, "run_command", systemctl)
    return Clients


def signalled(driver, call, number):
    """Send the signal to this process when the driver gets the call."""

    def send(name):
        if name == call and not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    sent = []
    driver.before = send
    return sent


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_between_two_writes_waits_for_the_end_of_the_change(node, clients, number):
    driver = node(FakeGpu(), FakeGpu(index=1))
    sent = signalled(driver, "create_compute_instance", number)
    result = driver.run(on(MIXED), clients_record=str(clients.record))
    assert sent and result["changed"] is True and result["unmatched"] == []
    assert [len(gpu.instances) for gpu in driver.gpus] == [3, 3]
    assert warnings(result) == ["Received %s during the change, which was not interrupted" % number.name]
    assert clients.started == ["nvsm.service", "dcgm.service"]


def test_a_signal_during_a_change_that_fails_waits_for_the_rollback(node, clients):
    gpu = FakeGpu()
    gpu.add("4g.20gb", 0)
    driver = node(gpu)
    before = gpu.snapshot()
    signalled(driver, "create_gpu_instance", signal.SIGTERM)
    driver.fail[("create_compute_instance", 0)] = codes.GPU_IS_LOST
    result = driver.run(on(MIXED), clients_record=str(clients.record))
    assert result["failed"] is True and "Its previous state was restored" in result["msg"]
    assert [(gi.profile_id, gi.placement) for gi in gpu.snapshot().instances] == [
        (gi.profile_id, gi.placement) for gi in before.instances
    ]
    assert clients.started == ["nvsm.service", "dcgm.service"]


@pytest.mark.parametrize("check", [False, True])
def test_a_signal_before_the_first_write_starts_the_stopped_clients(node, clients, check):
    driver = node(FakeGpu())
    signalled(driver, "read", signal.SIGTERM)
    result = driver.run(on(MIXED), check=check, clients_record=str(clients.record))
    assert result["failed"] is True and result["msg"] == "Stopped by SIGTERM. No GPU was changed"
    assert driver.writes == []
    assert clients.started == ["nvsm.service", "dcgm.service"]


def test_a_transient_error_while_gpus_are_counted_is_retried(node):
    driver = node(FakeGpu())
    driver.fail[("count", 0)] = codes.UNKNOWN
    assert driver.run(on({"4g.20gb": 1}))["changed"] is True


def test_a_mode_that_cannot_be_restored_after_a_refusal_is_reported(node):
    gpu = FakeGpu(mode=False, tells_profiles=False)
    driver = node(gpu)
    driver.fail[("set_mode", 1)] = codes.NO_PERMISSION
    result = driver.run(on({"4g.20gb": 1, "1g.5gb": 4}))
    assert result["failed"] is True
    assert result["changed"] is True
    assert "MIG mode was switched on" in result["msg"]
    assert "stays on" in result["msg"]


def test_a_failure_after_a_deferred_plan_restores_the_mode_too(node):
    gpu = FakeGpu(mode=False, tells_profiles=False)
    driver = node(gpu)
    driver.always["create_compute_instance"] = codes.UNKNOWN
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is False
    assert (gpu.current, gpu.instances) == (False, {})


def test_profiles_known_only_with_mig_on_are_planned_then(node):
    gpu = FakeGpu(mode=False, tells_profiles=False)
    driver = node(gpu)
    checked = driver.run(on(MIXED), check=True)
    assert checked["gpus"][0]["deferred"] is True
    assert [operation["kind"] for operation in checked["operations"]] == ["set_mode"]
    done = driver.run(on(MIXED))
    assert done["gpus"][0]["deferred"] is False
    assert done["gpus"][0]["mode"] == {"before": False, "desired": True, "current": True, "pending": True}
    assert len(done["gpus"][0]["created"]) == 3
    assert driver.run(on(MIXED))["changed"] is False


def test_a_layout_that_is_refused_only_with_mig_on_is_rolled_back(node):
    gpu = FakeGpu(mode=False, tells_profiles=False)
    result = node(gpu).run(on({"3g.40gb": 1}))
    assert result["failed"] is True
    assert "3g.40gb" in result["msg"]
    assert "3g.20gb" in result["msg"]
    assert gpu.current is False


# --- the prediction of check mode, over random states


@st.composite
def states(draw):
    """A GPU with a mode that may be pending, instances, clients that are listed, and a driver that may wait for a reset."""
    board = draw(st.sampled_from([A100, H100]))
    gpu = FakeGpu(board=board, mode=draw(st.booleans()), tells_profiles=draw(st.booleans()))
    small, _two, large = (board.profiles[position].name for position in range(3))
    if gpu.current:
        for name, start in draw(
            st.sampled_from([(), ((small, 0), (small, 1)), ((large, 4),), ((large, 4), (small, 0))])
        ):
            gpu.add(name, start)
    users = [None, *gpu.instances] if gpu.current else [None]
    for gi_id in draw(st.lists(st.sampled_from(users), max_size=2, unique=True)):
        gpu.use(gi_id, None if gi_id is None else 0, pid=100 + len(gpu.processes))
    if board is A100:
        gpu.pending = draw(st.booleans())
        gpu.activation = draw(st.sampled_from([codes.SUCCESS, codes.RESET_REQUIRED]))
        gpu.hidden_client = draw(st.booleans())
    wanted = draw(st.sampled_from([off(), on({}), on({large: 1}), on({large: 1, small: 2})]))
    return gpu, wanted, draw(st.booleans())


@hypothesis.settings(suppress_health_check=list(hypothesis.HealthCheck), max_examples=300)
@hypothesis.given(states())
def test_check_mode_predicts_the_run_for_any_mode_clients_and_permission(node, state):
    gpu, wanted, reset = state
    driver = node(gpu)
    if gpu.activation or gpu.hidden_client:
        # The result of a request cannot be read in advance. Once it is pending or cancelled, everything is known...
        driver.run(wanted, reset=reset)
        # ... except for an unlisted client, which appears only when a reset is attempted.
        hypothesis.assume(not (gpu.hidden_client and reset) and (gpu.current, gpu.pending) != (True, True))
    known = gpu.snapshot().profiles_known
    checked = driver.run(wanted, reset=reset, check=True)
    done = driver.run(wanted, reset=reset)
    assert checked.get("failed") == done.get("failed")
    if "failed" in checked:
        assert checked["msg"] == done["msg"]
        return
    (predicted,), (found,) = checked["gpus"], done["gpus"]
    if predicted["deferred"]:
        assert done["operations"][0] == checked["operations"][0]
        return
    for key in ("changed", "operations", "reset_required", "reboot_required", "diff"):
        assert checked[key] == done[key] or (key == "diff" and not known), key
    assert warnings(checked) == warnings(done)
    assert without_ids(predicted) == without_ids(found)


# --- refusals: before the first write, with all problems


def refused(node, *entries, **options):
    result = node.run(*entries, **options)
    assert result["failed"] is True
    assert result["changed"] is False
    assert node.writes == []
    return result["msg"]


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


# --- a GPU that cannot be read


def losing(node, index, identified=False, gpus=3):
    """A node with one lost GPU, and its GPUs."""
    given = [FakeGpu(index=number) for number in range(gpus)]
    driver = node(*given)
    driver.always[("read", index)] = codes.GPU_IS_LOST
    if not identified:
        driver.always[("identify", index)] = codes.GPU_IS_LOST
    return driver, given


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


@pytest.mark.parametrize("devices", [[0, 2], "uuid", "bus_id"])
def test_a_lost_gpu_outside_the_layout_is_a_warning(node, devices):
    driver, gpus = losing(node, 1)
    devices = {"uuid": [gpus[0].uuid, gpus[2].uuid], "bus_id": ["00000000:07:00.0", "00000000:09:00.0"]}.get(
        str(devices), devices
    )
    result = driver.run(on(MIXED, devices=devices))
    assert not result.get("failed") and [gpu["index"] for gpu in result["gpus"]] == [0, 2]
    assert [len(gpu.instances) for gpu in gpus] == [3, 0, 3]
    assert warnings(result) == ["GPU 1 cannot be read, and is not in the layout: read: GPU_IS_LOST (injected failure)"]


@pytest.mark.parametrize(
    ("entry", "verb"),
    [
        (dict(devices="all"), "covers"),
        (dict(devices=1), "covers"),
        (dict(devices=[0, 1]), "covers"),
        (dict(devices="all", device_filter="0x20B010DE"), "may cover"),
        (dict(devices="*A100*"), "may cover"),
        (dict(devices="GPU-00000000-0000-0000-0000-000000000001"), "may cover"),
        (dict(devices="0000:08:00.0"), "may cover"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_lost_gpu_that_the_layout_may_cover_is_named_before_any_write(node, entry, verb, check):
    driver, _gpus = losing(node, 1)
    message = refused(driver, off(devices=[0]), dict(on(MIXED), **entry), check=check)
    assert message.startswith("GPU 1 cannot be read: read: GPU_IS_LOST (injected failure). Its UUID, PCI bus id and ")
    assert " entry 2 (devices: " in message and ") %s it, so no GPU of this node was changed. " % verb in message
    assert message.endswith("name only other GPUs there (devices: [0, 2]), or remove the entry")
    assert "entry 1" not in message


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (dict(devices="all"), True),
        (dict(devices="GPU-00000000-0000-0000-0000-000000000001"), True),
        (dict(devices="0000:08:00.0"), True),
        (dict(devices="*H100*"), True),
        (dict(devices="all", device_filter="0x20B010DE"), True),
        (dict(devices="all", device_filter="0x233010DE"), False),
        (dict(devices="*A100*"), False),
        (dict(devices=[0, 2]), False),
    ],
)
def test_an_identified_lost_gpu_is_matched_by_its_identity(node, entry, covered):
    driver, gpus = losing(node, 1, identified=True)
    gpus[1].board = H100
    result = driver.run(off(devices=[0]), dict(off(), **entry))
    assert result.get("failed", False) is covered
    if covered:
        assert result["msg"].startswith(
            "GPU 1 (%s, 00000000:08:00.0, NVIDIA H100 80GB HBM3) cannot be read" % gpus[1].uuid
        )
        assert "cannot be read either" not in result["msg"]
        assert driver.writes == []
    else:
        assert [gpu.current for gpu in gpus][0] is False


def test_a_name_that_matches_no_gpu_is_refused_despite_a_lost_gpu(node):
    driver, _gpus = losing(node, 1)
    assert "index 7 matches no GPU" in refused(driver, off(devices=[7]))


def test_an_unresponsive_gpu_is_not_queried_twice(node):
    driver, _gpus = losing(node, 1)
    driver.always[("read", 1)] = codes.TIMEOUT
    refused(driver, off())
    assert ("identify", 1) not in driver.calls


def test_if_no_gpu_can_be_read_the_error_names_the_driver(node):
    driver = node(FakeGpu(), FakeGpu(index=1))
    driver.always["read"] = codes.NO_PERMISSION
    assert refused(driver, off()) == "read: NO_PERMISSION (injected failure)"


# --- GPUs in use


def test_busy_instances_are_refused_in_check_mode_too(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    assert "PID 4711 (python)" in refused(node(gpu), on(MIXED), check=True)


def test_a_refusal_reports_whether_only_processes_block_it(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    result = node(gpu, FakeGpu(index=1), FakeGpu(index=2)).run(on(MIXED, devices=[0, 1]))
    assert result["busy"] is True
    (pending,) = result["pending"]
    assert (pending["index"], pending["uuid"]) == (0, gpu.uuid)
    assert pending["reason"] == result["msg"]
    assert pending["clients"] == [{"pid": 4711, "name": "python"}]
    assert not {"gpus", "diff"} & result.keys(), "a user who waits for the processes reads only what blocks"
    assert "busy" not in node(gpu, FakeGpu(index=1)).run(on(MIXED), on({"7g.40gb": 2}, devices=[1]))
    assert "busy" not in node(FakeGpu()).run(on({"7g.40gb": 2}))


def test_in_check_mode_a_refusal_shows_the_maps_of_all_gpus(node):
    gpu, idle = FakeGpu(), FakeGpu(index=1)
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    driver = node(gpu, idle)
    result = driver.run(on(MIXED), check=True, diff=True)
    assert result["failed"] and result["busy"]
    lines = result["msg"].splitlines()
    assert "PID 4711 (python). Stop these processes" in lines[0]
    assert [line[: len("-GPU 0")] for line in lines[1:]] == ["-GPU 0", "-GPU 1", "+GPU 0", "+GPU 1"]
    assert re.search(r"\|1g\.5gb +\|1g\.5gb +\|[.|]+\|3g\.20gb +\|  blocked by PID 4711 \(python\)$", lines[3])
    assert lines[4].endswith("|") and "3g.20gb" in lines[4]
    assert result["diff"]["after"].splitlines() == [line[1:] for line in lines[3:]]
    without = driver.run(on(MIXED), check=True)
    assert without["msg"] == lines[0] and without["diff"] == result["diff"]


def test_idle_gpus_change_and_busy_ones_are_pending_if_requested(node):
    gpu, idle = FakeGpu(), FakeGpu(index=1)
    gpu.use(gpu.add("4g.20gb", 0), 0, 4711, "python")
    gpu.add("3g.20gb", 4)
    driver = node(gpu, idle)
    checked, done = (driver.run(on(MIXED), check=check, busy="skip") for check in (True, False))
    for result in (checked, done):
        assert result["changed"] is True
        assert [found["changed"] for found in result["gpus"]] == [False, True]
        assert [(each["index"], each["uuid"]) for each in result["pending"]] == [(0, gpu.uuid)]
        assert "used by PID 4711 (python). Stop these processes" in result["pending"][0]["reason"]
        assert result["pending"][0]["clients"] == [{"pid": 4711, "name": "python"}]
        assert result["pending"][0]["reason"] in json.dumps(result["warnings"])
        assert result["disruption"] == "destroy", "clients that can be stopped may block the change"
    assert checked["operations"] == done["operations"]
    assert {each["gpu"] for each in done["operations"]} == {1}
    assert len(checked["unmatched"]) == 2 and done["unmatched"] == ["GPU 0 %s" % gpu.uuid]
    # Check mode shows the change without the process, for example to drain the node.
    assert places(checked["gpus"][0]["kept"]) == ["3g.20gb at 4:4"]
    assert places(checked["gpus"][0]["destroyed"]) == ["4g.20gb at 0:4"]
    assert places(done["gpus"][0]["kept"]) == ["4g.20gb at 0:4", "3g.20gb at 4:4"]
    assert done["gpus"][0]["created"] == done["gpus"][0]["destroyed"] == []
    again = driver.run(on(MIXED), busy="skip")
    assert (again["changed"], again["operations"], len(again["pending"])) == (False, [], 1)

    gpu.processes.clear()
    assert driver.run(on(MIXED), busy="skip")["pending"] == []
    assert driver.run(on(MIXED))["changed"] is False


def test_a_reset_that_a_process_blocks_is_pending(node):
    gpu = FakeGpu(mode=False)
    gpu.use(pid=4711, name="python")
    for busy in ("skip", "fail"):
        result = node(gpu).run(on(MIXED), reset=True, busy=busy)
        assert result["gpus"][0]["reset_required"] is True
        assert "PID 4711 (python) uses it" in result["pending"][0]["reason"]
        assert result["reset_required"] is (busy == "fail")


def test_other_problems_are_not_skipped(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    gpu.use(0, 0, 4711, "python")
    driver = node(gpu, FakeGpu(index=1))
    assert "GPU 1" in refused(driver, on(MIXED), on({"7g.40gb": 2}, devices=[1]), busy="skip")
    assert driver.writes == []


def test_a_mode_change_that_a_process_blocks_is_refused_in_check_mode_too(node):
    gpu = FakeGpu(board=H100, mode=False)
    gpu.use(pid=4711, name="python")
    for check in (True, False):
        message = refused(node(gpu), on({"3g.40gb": 2}), check=check)
        assert "MIG mode cannot be switched on while PID 4711 (python) uses the GPU" in message


def test_idle_instances_are_refused_where_they_must_not_be_disturbed(node):
    gpu = FakeGpu()
    gpu.add("7g.40gb", 0)
    message = refused(node(gpu), on(MIXED), disturb=False)
    assert "7g.40gb at 0:8" in message
    assert "disturb" in message


def test_without_disturbing_instances_can_be_added(node):
    gpu = FakeGpu()
    gpu.add("3g.20gb", 4)
    result = node(gpu).run(on(MIXED), disturb=False)
    assert len(result["gpus"][0]["created"]) == 2


# --- failures during a run


def test_a_failure_returns_the_full_result_and_the_restored_instances(node):
    gpu = FakeGpu()
    gpu.add("2g.10gb", 0)
    driver = node(gpu)
    driver.fail[("create_gpu_instance", 0)] = codes.NO_PERMISSION
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is False
    assert "NO_PERMISSION" in result["msg"]
    assert gpu.uuid in result["msg"]
    assert places(result["gpus"][0]["kept"]) == ["2g.10gb at 0:2"]
    assert result["operations"][0]["kind"] == "destroy_compute_instance"
    assert result["diff"]["before"] == result["diff"]["after"]


def test_retries_are_in_the_result(node):
    driver = node(FakeGpu())
    driver.fail[("create_gpu_instance", 0)] = codes.INSUFFICIENT_RESOURCES
    (gpu,) = driver.run(on({"7g.40gb": 1}))["gpus"]
    (retried,) = gpu["retries"]
    assert (retried["kind"], retried["profile"], retried["placement"]) == ("create_gpu_instance", "7g.40gb", "0:8")
    assert "INSUFFICIENT_RESOURCES" in retried["error"]
    assert driver.run(on({"7g.40gb": 1}))["gpus"][0]["retries"] == []


def test_a_gpu_that_cannot_be_restored_counts_as_changed(node):
    driver = node(FakeGpu(mode=False))

    def lose(call):
        if call == "set_mode":
            driver.always["read"] = codes.GPU_IS_LOST

    driver.before = lose
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is True
    assert [operation["kind"] for operation in result["operations"]][0] == "set_mode"


def test_failures_of_many_gpus_are_summarised_and_listed_per_gpu(node):
    gpus = [FakeGpu(index) for index in range(8)]
    for gpu in gpus:
        gpu.add("2g.10gb", 0)
    driver = node(*gpus)
    driver.always.update(create_gpu_instance=codes.UNKNOWN, create_compute_instance=codes.UNKNOWN)
    result = driver.run(on(MIXED))
    assert len(result["msg"]) < 1500 and "more" in result["msg"]
    assert all(gpu["uuid"] in gpu["error"] and "missing: 2g.10gb" in gpu["error"] for gpu in result["gpus"])


def test_a_failure_of_one_gpu_does_not_hide_the_others(node):
    good, bad = FakeGpu(index=0), FakeGpu(index=1, mode=False)
    driver = node(good, bad)
    driver.always["set_mode"] = codes.UNKNOWN
    result = driver.run(on(MIXED))
    assert result["failed"] is True
    assert result["changed"] is True
    assert len(result["msg"].splitlines()) == 1
    assert [len(gpu["created"]) for gpu in result["gpus"]] == [3, 0]


def test_a_driver_that_does_not_open_is_a_failure_with_the_remedy(node):
    driver = node(FakeGpu())

    def refuse():
        raise BackendError(codes.DRIVER_NOT_LOADED, "nvmlInit", "", "Load it with modprobe nvidia")

    driver.open = refuse
    assert refused(driver, on(MIXED)) == "nvmlInit: DRIVER_NOT_LOADED. Load it with modprobe nvidia"


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
YAML = """\
version: v1
mig-configs:
  all-balanced:
    - devices: all
      mig-enabled: true
      mig-devices:
        1g.5gb: 2
        3g.20gb: 1
"""


@pytest.mark.parametrize("name", ["all-balanced", "all-disabled"])
def test_a_configuration_in_json(node, tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    (gpu,) = node(FakeGpu()).run(config_file=str(path), config_name=name)["gpus"]
    assert gpu["mode"]["current"] is (name == "all-balanced")
    assert len(gpu["created"]) == (3 if name == "all-balanced" else 0)


def test_a_file_that_nvidia_mig_parted_accepts_is_applied_with_warnings(node, tmp_path):
    """As the example of deepops, which lists a configuration twice."""
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    again = (
        "  all-balanced: [{devices: [0, 0], mig-enabled: true, mig-devices: {7g.40gb: 1}}]\n  7: []\n---\nversion: v2\n"
    )
    path.write_text(YAML + again)
    result = node(FakeGpu(), FakeGpu(1)).run(config_file=str(path), config_name="all-balanced")
    assert [places(gpu["created"]) for gpu in result["gpus"]] == [["7g.40gb at 0:8"]]
    texts = warnings(result)
    assert all(text.startswith("config_file %s" % path) for text in texts)
    words = ("'all-balanced' (line 9, column 3)", "more than one YAML document", "index 0 twice", "configuration 7, ")
    assert len(texts) == len(words)
    assert all(word in text for word, text in zip(words, texts))


@pytest.mark.parametrize("check", [True, False])
def test_a_layout_that_selects_no_gpu_changes_nothing(node, check):
    driver = node(FakeGpu())
    result = driver.run(off([]), check=check)
    assert not result["changed"] and result["gpus"] == [] and driver.writes == []
    assert "entry 1 (devices: []): devices is an empty list, which selects no GPU" in warnings(result)[0]


def test_a_configuration_in_yaml_may_be_the_only_one(node, tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    path.write_text(YAML)
    (gpu,) = node(FakeGpu()).run(config_file=str(path))["gpus"]
    assert len(gpu["created"]) == 3


def test_yaml_without_pyyaml_is_refused_with_a_remedy(node, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "config.yaml"
    path.write_text(YAML)
    message = refused(node(FakeGpu()), config_file=str(path))
    assert str(path) in message
    assert "PyYAML" in message
    assert "from_yaml" in message


def test_text_that_is_neither_json_nor_yaml_is_refused(node, tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    path.write_text("mig-configs: [")
    assert str(path) in refused(node(FakeGpu()), config_file=str(path))


def test_a_missing_file_is_refused(node, tmp_path):
    message = refused(node(FakeGpu()), config_file=str(tmp_path / "none.yaml"))
    assert "none.yaml" in message
    assert "No such file" in message


def test_an_unknown_configuration_is_refused_with_the_existing_ones(node, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    message = refused(node(FakeGpu()), config_file=str(path), config_name="all-balancd")
    assert str(path) in message
    assert "did you mean all-balanced" in message


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
