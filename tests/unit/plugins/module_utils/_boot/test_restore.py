# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring layouts at boot, on a node in memory."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import select
from ansible_collections.gpufleet.node.plugins.module_utils._boot import gpus as gpu_restore
from ansible_collections.gpufleet.node.plugins.module_utils._boot import restore, settings
from ansible_collections.gpufleet.node.plugins.module_utils._boot.report import Report
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import H100, FakeBackend, FakeGpu

LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.20gb": 1, "1g.5gb": 2}}]
PROFILES = ["1g.5gb", "1g.5gb", "3g.20gb"]


@pytest.fixture(name="boot")
def fixture_boot(tmp_path, monkeypatch, capfd):
    """Runs the command on GPUs; returns its exit status and what it printed."""
    monkeypatch.setattr(restore, "_POLL_SECONDS", 0.01)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)

    def boot(driver, *arguments, layout=None, opening=(), **values):
        problems = list(opening)

        def open_backend(_choice):
            if problems:
                raise problems.pop(0)
            driver.open()
            return driver

        monkeypatch.setattr(select, "open_backend", open_backend)
        path = tmp_path / "mig-layout.json"
        values.setdefault("lock_path", str(tmp_path / "lock"))
        path.write_text(json.dumps(dict({"version": 1, "layout": layout or LAYOUT, "driver_wait": 0.1}, **values)))
        status = restore.main(["--settings", str(path), *arguments])
        return status, capfd.readouterr().out

    return boot


NO_CHANGE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.gpufleet.node.plugins.module_utils._backend import select
from ansible_collections.gpufleet.node.plugins.module_utils._boot import restore
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import FakeBackend, FakeGpu
gpu = FakeGpu()
gpu.add("3g.20gb", 4)
gpu.add("1g.5gb", 0)
gpu.add("1g.5gb", 1)
select.open_backend = lambda _choice: FakeBackend(gpu)
assert restore.main(["--settings", sys.argv[2]]) == 0
print(" ".join(name.rpartition(".")[2] for name in sys.modules))
"""


def test_a_run_that_changes_nothing_loads_only_what_it_needs(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"version": 1, "layout": LAYOUT, "driver_wait": 0, "lock_path": str(tmp_path / "lock")}))
    root = restore.__file__.split("/ansible_collections/", maxsplit=1)[0]
    printed = subprocess.run(
        [sys.executable, "-I", "-c", NO_CHANGE, root, path], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    assert "already matches the layout" in printed
    loaded = set(printed.splitlines()[-1].split())
    assert {"restore", "plan_node", "nvml", "nvml_library"} <= loaded
    needless = {
        "converge_node",
        "converge",
        "rollback",
        "journal",
        "plan",
        "solve",
        "explain",
    }  # planning and applying a change
    needless |= {"smi", "futures"}
    if sys.version_info < (3, 14):  # later, traceback imports it
        needless.add("inspect")
    assert needless.isdisjoint(loaded), needless & loaded


def profiles(gpu):
    return sorted(what.name for what, _place, _cis in gpu.instances.values())


@pytest.mark.parametrize("mode", [True, False])
def test_the_layout_is_created_on_an_empty_gpu(boot, mode):
    """After a reboot, Ampere has MIG mode but no instances, Hopper has neither."""
    gpus = FakeGpu(mode=mode), FakeGpu(index=1, mode=mode)
    status, said = boot(FakeBackend(*gpus))
    assert status == 0
    assert [profiles(gpu) for gpu in gpus] == [PROFILES, PROFILES]
    lines = sorted(said.splitlines())  # the GPUs are restored in parallel and reported as they complete
    assert [line.split()[:2] for line in lines] == [["GPU", "0"], ["GPU", "1"]]
    assert all(line.endswith("|  restored") and "|3g.20gb " in line for line in lines)


@pytest.mark.parametrize("nth", [0, 1])
def test_a_transient_error_of_the_whole_driver_is_retried(boot, nth):
    gpu = FakeGpu()
    driver = FakeBackend(gpu)
    driver.fail[("count", nth)] = codes.UNKNOWN
    assert boot(driver)[0] == 0
    assert profiles(gpu) == PROFILES


def test_existing_instances_are_kept(boot):
    driver = FakeBackend(FakeGpu())
    boot(driver)
    driver.calls.clear()
    status, said = boot(driver)
    assert (status, driver.writes) == (0, [])
    assert said.endswith("  already matches the layout\n")


def test_check_changes_nothing_and_reports_by_exit_status(boot, tmp_path):
    driver = FakeBackend(FakeGpu())
    status, said = boot(driver, "--check")
    assert (status, driver.writes) == (1, [])
    assert "would change to GPU 0 " in said
    assert not (tmp_path / "lock").exists()
    boot(driver)
    status, said = boot(driver, "--check")
    assert status == 0
    assert said.endswith("|  matches the layout\n")


def test_gpus_outside_the_layout_are_unchanged(boot):
    gpus = FakeGpu(), FakeGpu(index=1)
    status, said = boot(FakeBackend(*gpus), layout=[dict(LAYOUT[0], devices=[1])])
    assert status == 0
    assert [profiles(gpu) for gpu in gpus] == [[], PROFILES]
    assert said.splitlines()[0].endswith("not in the layout, unchanged")


def test_a_gpu_in_use_is_unchanged_and_the_others_are_restored(boot):
    busy, idle = FakeGpu(), FakeGpu(index=1)
    busy.add("7g.40gb", 0)
    busy.use(0, 0, 4711, "python")
    status, said = boot(FakeBackend(busy, idle))
    assert status == 1
    assert [profiles(busy), profiles(idle)] == [["7g.40gb"], PROFILES]
    assert "PID 4711 (python)" in said


def test_an_unreadable_gpu_does_not_block_the_others(boot):
    gpus = FakeGpu(), FakeGpu(index=1)
    driver = FakeBackend(*gpus)
    driver.fail[("read", 0)] = codes.GPU_IS_LOST
    status, said = boot(driver)
    assert status == 1
    assert [profiles(gpu) for gpu in gpus] == [[], PROFILES]
    assert said.startswith("GPU 0 cannot be read, and is left unchanged: read: GPU_IS_LOST")


def test_a_failure_is_rolled_back_and_reported(boot):
    gpu = FakeGpu()
    gpu.add("2g.10gb", 0)
    driver = FakeBackend(gpu)
    driver.fail[("create_gpu_instance", 1)] = codes.NO_PERMISSION
    status, said = boot(driver)
    assert status == 1
    assert profiles(gpu) == ["2g.10gb"]
    assert "FAILED: " in said
    assert "Its previous state was restored" in said


@pytest.mark.parametrize("reset", [False, True])
def test_a_gpu_is_reset_only_if_allowed(boot, reset):
    gpu = FakeGpu(mode=False, activation=codes.RESET_REQUIRED)
    driver = FakeBackend(gpu)
    status, said = boot(driver, reset=reset)
    assert ("reset" in driver.writes) == reset
    assert (status, profiles(gpu)) == ((0, PROFILES) if reset else (1, []))
    assert ("does not match the layout yet" in said) != reset


def test_hopper_with_a_client_is_unchanged(boot):
    gpu = FakeGpu(board=H100, mode=False)
    gpu.use(pid=4711, name="dcgm")
    driver = FakeBackend(gpu)
    status, said = boot(driver, layout=[{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}])
    assert (status, driver.writes) == (1, [])
    assert "PID 4711 (dcgm)" in said


# --- the driver


def down(code=codes.DRIVER_NOT_LOADED):
    return BackendError(code, "nvmlInit")


def test_waits_for_a_late_driver(boot):
    gpu = FakeGpu()
    status, said = boot(FakeBackend(gpu), opening=[down(), down()], driver_wait=60)
    assert (status, profiles(gpu)) == (0, PROFILES)
    assert said.count("Waiting up to 60 seconds for the NVIDIA driver: nvmlInit: DRIVER_NOT_LOADED") == 1


def test_without_a_driver_the_node_is_unchanged(boot):
    status, said = boot(FakeBackend(), opening=[down()] * 100000)
    assert status == 3
    assert "The NVIDIA driver is not up, so the GPUs are left unchanged: nvmlInit: DRIVER_NOT_LOADED" in said
    assert "restart gpufleet-mig-restore.service" in said


@pytest.mark.parametrize("code", [codes.NO_PERMISSION, codes.LIB_RM_VERSION_MISMATCH])
def test_permanent_errors_fail_at_once(boot, code):
    assert boot(FakeBackend(), opening=[down(code)], driver_wait=100000)[0] == 3


def test_a_driver_without_gpus_is_not_ready(boot):
    status, said = boot(FakeBackend())
    assert status == 3
    assert "the driver lists no GPU" in said


# --- the lock, the file, the limit


def test_waiting_for_another_run_is_limited(boot, tmp_path):
    driver = FakeBackend(FakeGpu())
    with open(tmp_path / "lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        status, said = boot(driver, lock_wait=0)
    assert (status, driver.writes) == (1, [])
    assert "Another run is changing the MIG layout of this node" in said


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "No such file"),
        ("{", "Expecting"),
        ('{"version": 2, "layout": []}', "not a file of version 1"),
        ('{"version": 1, "layout": []}', "the layout is empty"),
        ('{"version": 1, "layout": [{"devices": "all"}]}', "has no mig_enabled"),
        ('{"version": 1, "layout": [], "resett": true}', "unknown key resett"),
        ('{"version": 1, "layout": [], "reset": "yes"}', "reset is 'yes'"),
        ('{"version": 1, "layout": [], "lock_wait": true}', "lock_wait is True"),
        ('{"version": 1, "layout": [], "time_limit": 0}', "time_limit is 0, and must be more than 0"),
        ('{"version": 1, "layout": [], "time_limit": Infinity}', "time_limit is inf"),
        ('{"version": 1, "layout": [], "driver_wait": NaN}', "driver_wait is nan"),
        ('{"version": 1, "layout": [], "lock_wait": -1}', "lock_wait is -1"),
        ('{"version": 1, "layout": ' + "[" * 100000, "recursion" if sys.version_info < (3, 14) else "Stack overflow"),
        ('{"version": 1, "layout": [], "gpus": {"first": "GPU-1"}}', "invalid literal"),
        ('{"version": 1, "layout": [], "backend": "dcgm"}', "must be one of auto, nvml, nvidia_smi"),
    ],
)
def test_settings_that_cannot_be_used_are_named_with_the_remedy(tmp_path, capfd, content, words):
    path = tmp_path / "settings"
    if content is not None:
        path.write_text(content)
    assert restore.main(["--settings", str(path)]) == 2
    said = capfd.readouterr().out
    assert said.startswith("Nothing is restored: %s: " % path)
    assert words in said
    assert settings.REMEDY in said


# --- GPUs that are missing or hang

OTHER = {"mig_enabled": True, "mig_devices": {"7g.40gb": 1}}
UUIDS = ["GPU-00000000-0000-0000-0000-%012d" % number for number in range(8)]


def left(*missing):
    """The GPUs of an eight-GPU node, some of which are missing: the others have new indices."""
    gpus = [FakeGpu(index=index) for index in range(8)]
    rest = [gpu for gpu in gpus if gpu.index not in missing]
    for index, gpu in enumerate(rest):
        gpu.index = index
    return rest


@pytest.mark.parametrize("devices", [7, [7], UUIDS[7], [UUIDS[7]]])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_missing_gpu_is_named_and_the_others_are_restored(boot, devices, recorded):
    gpus = left(7)
    record = {"gpus": dict(enumerate(UUIDS))} if recorded else {}
    status, said = boot(FakeBackend(*gpus), layout=[*LAYOUT, dict(OTHER, devices=devices)], **record)
    assert status == 1
    assert [profiles(gpu) for gpu in gpus] == [PROFILES] * 7
    assert said.count("|  restored\n") == 7
    problems = [line for line in said.splitlines() if not line.endswith("|  restored")]
    assert len(problems) == 1
    if recorded:
        assert problems[0].startswith("GPU 7 (%s) is not among the GPUs that can be read" % UUIDS[7])
    else:
        assert (
            "A part of the layout cannot be restored: entry 2 (devices: " in problems[0]
            and "matches no GPU" in problems[0]
        )


def test_an_index_refers_to_the_gpu_that_had_it_when_the_role_ran(boot):
    """Without the record, the GPUs after the missing one would get their neighbours' layouts."""
    gpus = left(3)
    layout = [*LAYOUT, dict(OTHER, devices=[3, 5]), {"devices": 7, "mig_enabled": False}]
    status, said = boot(FakeBackend(*gpus), layout=layout, gpus=dict(enumerate(UUIDS)))
    assert status == 1
    assert [profiles(gpu) for gpu in gpus] == [PROFILES, PROFILES, PROFILES, PROFILES, ["7g.40gb"], PROFILES, []]
    assert [gpu.current for gpu in gpus] == [True] * 6 + [False]
    assert said.count("GPU 3 (%s) is not among the GPUs that can be read" % UUIDS[3]) == 1
    assert "matches no GPU" not in said


def test_with_devices_all_missing_gpus_are_named_too(boot):
    gpus = left(2, 6)
    status, said = boot(FakeBackend(*gpus), gpus=dict(enumerate(UUIDS)))
    assert (status, [profiles(gpu) for gpu in gpus]) == (1, [PROFILES] * 6)
    for index in (2, 6):
        assert "GPU %d (%s) is not among" % (index, UUIDS[index]) in said


def test_an_entry_with_a_missing_gpu_applies_to_its_others(boot):
    gpus = left(7)
    status, _said = boot(FakeBackend(*gpus), layout=[dict(OTHER, devices=[0, 7]), dict(LAYOUT[0], devices=[1])])
    assert (status, profiles(gpus[0]), profiles(gpus[1])) == (1, ["7g.40gb"], PROFILES)


@pytest.mark.parametrize("identified", [True, False])
def test_a_lost_gpu_outside_the_layout_is_not_a_failure(boot, identified):
    gpus = left()
    driver = FakeBackend(*gpus)
    driver.always[("read", 7)] = codes.GPU_IS_LOST
    if not identified:
        driver.always[("identify", 7)] = codes.GPU_IS_LOST
    status, said = boot(driver, layout=[dict(LAYOUT[0], devices=list(range(7)))])
    assert (status, [profiles(gpu) for gpu in gpus]) == (0, [PROFILES] * 7 + [[]])
    assert "GPU 7 cannot be read, and is not in the layout: read: GPU_IS_LOST" in said
    assert (UUIDS[7] in said) == identified


@pytest.mark.parametrize("devices", [7, UUIDS[7], "00000000:0E:00.0"])
def test_a_lost_gpu_of_the_layout_is_named_once(boot, devices):
    gpus = left()
    driver = FakeBackend(*gpus)
    driver.always[("read", 7)] = codes.GPU_IS_LOST
    status, said = boot(driver, layout=[*LAYOUT, dict(OTHER, devices=devices)], gpus=dict(enumerate(UUIDS)))
    assert (status, [profiles(gpu) for gpu in gpus]) == (1, [PROFILES] * 7 + [[]])
    (problem,) = [line for line in said.splitlines() if not line.endswith("|  restored")]
    assert problem.startswith("GPU 7 cannot be read, and is left unchanged: ") and UUIDS[7] in problem


def test_an_unsupported_entry_affects_only_its_gpu(boot):
    gpus = left()
    status, said = boot(FakeBackend(*gpus), layout=[*LAYOUT, dict(OTHER, devices=2, mig_devices={"9g.1gb": 1})])
    assert (status, [profiles(gpu) for gpu in gpus]) == (1, [PROFILES] * 2 + [[]] + [PROFILES] * 5)
    assert "9g.1gb" in said


def test_a_gpu_that_hangs_on_reads_does_not_block_the_others(boot, monkeypatch):
    """The process ends once the others are restored, without waiting for the driver."""
    gpus = left()
    driver = FakeBackend(*gpus)
    awake, ended = threading.Event(), []
    read = driver.read

    def hang(index):
        if index == 2:
            awake.wait()
        return read(index)

    def end(status):
        ended.append(status)
        awake.set()
        raise SystemExit

    monkeypatch.setattr(driver, "read", hang)
    monkeypatch.setattr(driver, "close", lambda: ended.append("closed"))
    monkeypatch.setattr(restore.os, "_exit", end)
    monkeypatch.setattr(gpu_restore, "_READ_SECONDS", 0.5)
    seen = []
    monkeypatch.setattr(Report, "error", lambda _report, text: seen.append(text))
    with pytest.raises(SystemExit):
        boot(driver)
    assert (ended, [profiles(gpu) for gpu in gpus]) == ([1], [PROFILES] * 2 + [[]] + [PROFILES] * 5)
    (problem,) = seen
    assert problem.startswith(
        "GPU 2 cannot be read, and is left unchanged: reading the GPU: TIMEOUT (no response after 0.5 "
    )


def test_an_entry_without_its_gpu_does_not_affect_the_others(boot):
    gpu = FakeGpu()
    status, said = boot(FakeBackend(gpu), layout=[dict(LAYOUT[0], devices=[0]), dict(LAYOUT[0], devices=[5])])
    assert (status, profiles(gpu)) == (1, PROFILES)
    assert "A part of the layout cannot be restored: entry 2 (devices: [5]): index 5 matches no GPU" in said


HANG = """
import sys, time
from ansible_collections.gpufleet.node.plugins.module_utils._boot.limit import limited
from ansible_collections.gpufleet.node.plugins.module_utils._boot.report import Report

with limited(0.05, Report(), 7):
    time.sleep(600)
"""


def test_the_process_ends_at_its_timeout():
    started = time.monotonic()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", HANG], stdout=subprocess.PIPE, check=False, env=environment)
    assert time.monotonic() - started < 300
    assert done.returncode == 7
    assert b"Not done after 0.05 seconds" in done.stdout


def test_journal_lines_have_a_priority(capfd):
    report = Report(journal=True)
    report.error("one\n\x1b[2Jtwo")
    report.warning("three")
    report.info("four")
    assert capfd.readouterr().out == "<3>one / [2Jtwo\n<4>three\n<6>four\n"
