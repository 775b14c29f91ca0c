# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter driver_reboot: a node is never rebooted twice for one cause."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.filter.driver_reboot import FilterModule

driver_reboot = FilterModule().filters()["driver_reboot"]

NEW, OLD = "580.126.20", "580.126.09"
REJECTED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"


def decide(loaded: t.Optional[str] = None, **more: t.Any) -> t.Tuple[bool, bool, str]:
    found = driver_reboot(NEW, loaded, "boot 2", **more)
    return found["required"], found["helps"], found["reason"]


def test_a_loaded_driver_needs_no_reboot() -> None:
    assert decide(NEW)[:2] == (False, False)
    assert decide(NEW, rebooted={"version": NEW, "boot_id": "boot 1"}, modprobe=REJECTED)[:2] == (False, False)


@pytest.mark.parametrize(
    "loaded, more, words",
    [
        (OLD, {}, "kernel module 580.126.09 is loaded"),
        (None, {"nouveau": True}, "no kernel module of it is loaded but nouveau"),
        (None, {"modprobe": "modprobe: FATAL: Module nvidia not found"}, "Module nvidia not found"),
        (None, {}, "no kernel module"),
    ],
)
def test_a_reboot_loads_what_is_installed(loaded: t.Optional[str], more: t.Dict[str, t.Any], words: str) -> None:
    required, helps, reason = decide(loaded, **more)
    assert (required, helps) == (True, True)
    assert words in reason


@pytest.mark.parametrize(
    "said",
    [
        REJECTED,
        "modprobe: ERROR: could not insert 'nvidia': Required key not available",
        "modprobe: ERROR: could not insert 'nvidia': Operation not permitted",
    ],
)
def test_a_module_that_secure_boot_rejects_needs_no_reboot_but_a_key(said: str) -> None:
    required, helps, reason = decide(modprobe=said, secure_boot="enabled")
    assert (required, helps) == (True, False)
    assert said in reason
    assert "Secure Boot is enabled" in reason
    assert "mokutil --import" in reason


@pytest.mark.parametrize(
    "loaded, modprobe", [(None, "modprobe: ERROR: could not insert 'nvidia': No such device"), (OLD, "")]
)
def test_no_second_reboot_for_the_same_driver(loaded: t.Optional[str], modprobe: str) -> None:
    more = {"modprobe": modprobe, "rebooted": {"version": NEW, "boot_id": "boot 1"}}
    required, helps, reason = decide(loaded, **more)
    assert (required, helps) == (True, False)
    assert "not rebooted again" in reason
    assert modprobe in reason


def test_a_reboot_that_never_happened_is_made_up_for() -> None:
    assert decide(rebooted={"version": NEW, "boot_id": "boot 2"})[:2] == (True, True)
    assert decide(rebooted={"version": OLD, "boot_id": "boot 1"})[:2] == (True, True)  # for another driver
    assert decide(rebooted={})[:2] == (True, True)
