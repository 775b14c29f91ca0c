# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_driver_load: no node is rebooted twice for the same driver."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver import load as driver_load
from ansible_collections.gpufleet.node.plugins.modules import nvidia_driver_load

from .module_support import run

NEW, OLD = "580.126.20", "580.126.09"
REJECTED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"


def decide(loaded=None, **more):
    return driver_load.decide(NEW, loaded, "boot 2", **more)


def test_a_loaded_driver_needs_no_reboot():
    assert decide(NEW)[:2] == (False, False)
    assert decide(NEW, rebooted={"version": NEW, "boot_id": "boot 1"}, modprobe=REJECTED)[:2] == (False, False)


@pytest.mark.parametrize(
    "loaded, more, words",
    [
        (OLD, {}, "kernel module 580.126.09 is loaded"),
        (None, {"conflicting": "nouveau"}, "its kernel module is not loaded, and nouveau is"),
        (None, {"modprobe": "modprobe: FATAL: Module nvidia not found"}, "Module nvidia not found"),
        (None, {}, "its kernel module is not loaded"),
    ],
)
def test_a_reboot_loads_the_installed_driver(loaded, more, words):
    required, helps, reason = decide(loaded, **more)
    assert (required, helps) == (True, True)
    assert words in reason


@pytest.mark.parametrize(
    "output",
    [
        REJECTED,
        "modprobe: ERROR: could not insert 'nvidia': Required key not available",
        "modprobe: ERROR: could not insert 'nvidia': Operation not permitted",
    ],
)
def test_a_module_that_secure_boot_rejects_needs_a_key(output):
    required, helps, reason = decide(modprobe=output, secure_boot="enabled")
    assert (required, helps) == (True, False)
    assert output in reason
    assert "Secure Boot is enabled" in reason
    assert "mokutil --import" in reason


@pytest.mark.parametrize(
    "loaded, output", [(None, "modprobe: ERROR: could not insert 'nvidia': No such device"), (OLD, "")]
)
def test_no_second_reboot_for_the_same_driver(loaded, output):
    required, helps, reason = decide(loaded, modprobe=output, rebooted={"version": NEW, "boot_id": "boot 1"})
    assert (required, helps) == (True, False)
    assert "not rebooted again" in reason
    assert output in reason


def test_a_reboot_that_did_not_happen_is_repeated():
    assert decide(rebooted={"version": NEW, "boot_id": "boot 2"})[:2] == (True, True)
    assert decide(rebooted={"version": OLD, "boot_id": "boot 1"})[:2] == (True, True)  # for another driver
    assert decide(rebooted={})[:2] == (True, True)


def test_a_module_with_other_options_needs_a_reboot():
    required, helps, reason = decide(NEW, outdated=["NVreg_CreateImexChannel0 is 0"])
    assert (required, helps) == (True, True)
    assert "loaded with other options (NVreg_CreateImexChannel0 is 0)" in reason
    assert not decide(NEW, outdated=["x"], rebooted={"version": NEW, "boot_id": "boot 1"}).helps


def test_options_of_the_loaded_module():
    parameters = 'ModifyDeviceFiles: 1\nCreateImexChannel0: 0\nCoherentGPUMemoryMode: "driver"\nno parameter\n'
    options = {"NVreg_CreateImexChannel0": "1", "NVreg_CoherentGPUMemoryMode": "driver", "NVreg_Unknown": "1"}
    assert driver_load.outdated_options(parameters, options) == ["NVreg_CreateImexChannel0 is 0"]
    assert driver_load.outdated_options("", options) == []


# --- The module -------------------------------------------------------------------------------------------------------


@pytest.fixture(name="machine", autouse=True)
def fixture_machine(monkeypatch, tmp_path):
    """A node without a loaded module, whose modprobe records its calls and loads the version in the file offers."""
    modprobe = tmp_path / "modprobe"
    modprobe.write_text(
        "#!/bin/sh\necho $* >>%(top)s/calls\ncat %(top)s/errors >&2\n[ -e %(top)s/offers ] && cp %(top)s/offers %(top)s/loaded"
        % {"top": tmp_path}
    )
    modprobe.chmod(0o755)
    (tmp_path / "errors").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    class Node:
        def __init__(self, runner):
            pass

        def kernel_module(self):
            loaded = tmp_path / "loaded"
            return type("KernelModule", (), {"loaded": loaded.read_text() if loaded.exists() else None})

        def secure_boot(self):
            return "enabled"

    monkeypatch.setattr(driver_load, "NodeReader", Node)
    monkeypatch.setattr(driver_load, "CONFLICTING_MODULES", ())
    monkeypatch.setattr(driver_load, "PARAMETERS", str(tmp_path / "params"))
    monkeypatch.setattr(record, "PATH", str(tmp_path / "facts.d" / "gpufleet.fact"))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    return tmp_path


def load(check=False, **values):
    return run(nvidia_driver_load.main, check=check, version=NEW, **values)


def calls(machine):
    path = machine / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_check_mode_and_real_runs_alternately(machine):
    (machine / "offers").write_text(NEW)
    results = [load(check=check) for check in (True, False, True, False)]
    assert [result["changed"] for result in results] == [True, True, False, False]
    assert [result["reboot_required"] for result in results] == [False] * 4
    assert [result["running"] for result in results] == [False, True, True, True]
    assert calls(machine) == ["nvidia"]


def test_a_module_that_does_not_load_is_reported(machine):
    (machine / "errors").write_text(REJECTED)
    result = load()
    assert (result["changed"], result["reboot_required"], result["reboot_helps"]) == (False, True, False)
    assert REJECTED in result["reason"]


def test_another_version_is_left_loaded(machine):
    (machine / "loaded").write_text(OLD)
    result = load()
    assert (result["changed"], result["running"], result["reboot_required"]) == (False, False, True)
    assert (result["loaded_version"], calls(machine)) == (OLD, [])


def test_the_module_is_not_loaded_with_nouveau_or_without_permission(machine, monkeypatch):
    assert load(load=False)["reboot_required"]
    monkeypatch.setattr(driver_load, "CONFLICTING_MODULES", ("..",))  # /sys/module/.. exists
    assert load()["reboot_required"]
    assert calls(machine) == []


def test_changed_options_are_detected(machine):
    (machine / "loaded").write_text(NEW)
    (machine / "params").write_text("CreateImexChannel0: 0\n")
    result = load(options={"NVreg_CreateImexChannel0": "1"})
    assert (result["running"], result["reboot_required"]) == (True, True)
    assert not load()["reboot_required"]


def test_the_reboot_is_removed_from_the_record_once_the_driver_runs(machine):
    record.update("nvidia_driver", {"rebooted": {"version": NEW, "boot_id": "earlier"}, "held": ["x"]}, {})
    result = load()
    assert (result["reboot_required"], result["reboot_helps"]) == (True, False)
    (machine / "loaded").write_text(NEW)
    assert [load(check=check)["changed"] for check in (True, False, True, False)] == [True, True, False, False]
    assert record.read("nvidia_driver") == {"rebooted": {}, "held": ["x"]}


def test_a_damaged_record_is_an_error(machine):
    (machine / "facts.d").mkdir()
    (machine / "facts.d" / "gpufleet.fact").write_text("{")
    assert "was not written by this collection" in load(load=False)["msg"]
