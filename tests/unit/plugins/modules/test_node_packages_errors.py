# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_packages where a package manager fails."""

from __future__ import annotations

import fcntl
import json
import os
import stat

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import node_packages as packages
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.node_packages_support import (
    CUDA,
    INSTALL,
    LIBRARY,
    LOCKED,
    NEW,
    OLD,
    URL,
    pinned,
    recorded,
)


def test_half_installed_packages_are_configured(debian, driver):
    driver()
    debian.state[CUDA][0] = "hF "
    assert driver(check=True)["changed"]
    assert driver()["changed"]
    assert debian.state[CUDA] == ["hi ", NEW]
    assert debian.called("^dpkg --configure --pending")


def test_waits_for_a_running_installation(debian, driver):
    driver()
    debian.state[CUDA][0] = "hF "
    debian.answers += [("apt-get --quiet check", 100, LOCKED)] * 2
    debian.calls.clear()
    assert driver(lock_timeout=60, state="verified")["problems"] != []
    assert len(debian.called("apt-get --quiet check")) == 3


def test_waiting_for_the_lock_is_limited(debian, driver):
    debian.answers.append((INSTALL, 100, LOCKED))
    message = driver()["msg"]
    assert message.startswith("Another package manager is running on the node: wait for it to finish")
    assert "lock-frontend" in message
    assert recorded()["installed"] == []


def test_a_failed_build_is_reported_with_the_end_of_its_log(debian, driver):
    log = debian.folder / "dkms" / "nvidia" / "580.126.20" / "build" / "make.log"
    log.parent.mkdir(parents=True)
    log.write_text("make\nnv-pci.c:237: error: too few arguments\n")

    def half(argv):
        debian.install(CUDA, NEW, "iF ")
        return argv

    debian.answers.append((INSTALL, 100, "Error! Bad return status for module build on kernel: 6.12"))
    debian.get = lambda *_given: (half(0), "", "")
    debian.install(CUDA, NEW, "iF ")
    debian.answers.append(("dpkg --configure", 1, "dpkg: error processing package"))
    message = driver()["msg"]
    assert "The kernel module could not be built" in message
    assert "Half installed: nvidia-driver-cuda (half-configured)" in message
    assert "The end of %s:\nmake\nnv-pci.c:237: error: too few arguments" % log in message
    assert "Output of the package manager:\nError! Bad return status" in message


def cut_off(debian):
    """The next installations install one package and fail."""
    real = debian.get

    def get(specifications, simulate, *more):
        if simulate:
            return real(specifications, simulate, *more)
        debian.install(LIBRARY, NEW)
        return 100, "", "E: No space left on device"

    debian.get = get
    return real


def test_a_partial_installation_is_recorded(debian, driver):
    real = cut_off(debian)
    assert "no space left" in driver()["msg"]
    assert recorded() == {"installed": [LIBRARY]}
    debian.get = real
    driver()
    assert recorded()["installed"] == [LIBRARY, CUDA]


def test_own_holds_are_kept_after_a_failed_upgrade(debian, driver):
    driver(version="580.105.08")
    debian.answers.append((INSTALL, 100, "E: Failed to fetch http://mirror.example"))
    assert "cannot be reached" in driver(upgrade=True)["msg"]
    assert debian.state == {CUDA: ["hi ", OLD], LIBRARY: ["hi ", OLD]}


@pytest.mark.parametrize("lost", [INSTALL, "^sh "], ids=["install", "release"])
def test_an_upgrade_that_installs_nothing_restores_the_pin(debian, driver, lost):
    driver(version="580.105.08")
    before = pinned(debian)
    debian.answers.append((lost, 100, LOCKED))
    assert "Another package manager" in driver(upgrade=True)["msg"]
    assert pinned(debian) == before
    assert debian.state == {CUDA: ["hi ", OLD], LIBRARY: ["hi ", OLD]}


def test_an_installation_that_installs_nothing_leaves_no_pin(debian, driver):
    debian.answers.append((INSTALL, 100, LOCKED))
    driver()
    assert pinned(debian) is None


def test_a_partial_upgrade_keeps_the_pin_of_its_version(debian, driver):
    driver(version="580.105.08")
    cut_off(debian)
    driver(upgrade=True)
    assert "580.126.20-*" in pinned(debian)


UNSIGNED = "E: The repository '%s ./ Release' is not signed." % URL


@pytest.mark.parametrize(
    "added, had, withdrawn", [(True, {"version": "1"}, True), (False, {}, True), (False, {"installed": [CUDA]}, False)]
)
def test_an_unreadable_source_of_the_role_is_an_error_and_is_removed(debian, driver, added, had, withdrawn):
    record.update("nvidia_driver", had, {})
    source = debian.folder / "gpufleet.sources"
    source.write_text("")
    debian.answers.append(("update", 100, UNSIGNED))
    message = driver(repository={"url": URL + "/", "file": str(source), "added": added})["msg"]
    assert "cannot be used" in message
    assert "check the variables nvidia_driver_repository_*, and the package" in message
    assert ("was removed again" in message) == withdrawn
    assert source.exists() != withdrawn


def test_the_roles_source_is_kept_if_another_one_is_broken(debian, driver):
    source = debian.folder / "gpufleet.sources"
    source.write_text("")
    debian.answers.append(("update", 100, UNSIGNED.replace("mirror", "other")))
    message = driver(repository={"url": URL, "file": str(source), "added": True})["msg"]
    assert message.startswith("The package sources cannot be used (the role's is %s)." % URL)
    assert source.exists()


def test_apt_warnings_about_a_rotated_key_are_errors(debian, driver):
    debian.answers.append(("update", 0, "W: GPG error: %s ./ InRelease: NO_PUBKEY 0123456789ABCDEF" % URL))
    assert "NO_PUBKEY" in driver()["msg"]


def test_another_source_that_cannot_be_read_is_a_warning(debian, driver):
    words = "W: Failed to fetch http://other.example/InRelease  Could not resolve"
    debian.answers += [("update", 0, words)] * 3
    result = driver()
    assert result["version"] == "580.126.20"
    assert words in json.dumps(result["warnings"])


def test_a_transient_error_is_retried(debian, driver):
    debian.answers.append(("update", 100, "E: Failed to fetch %s/Packages  Hash Sum mismatch" % URL))
    assert driver()["version"] == "580.126.20"


def test_an_unavailable_version(debian, driver):
    message = driver(version="580.1.2")["msg"]
    assert message.startswith(
        "driver 580.1.2 cannot be installed: nvidia-driver-cuda is offered as 580.126.20, 580.105.08"
    )
    assert pinned(debian) is None


def test_a_damaged_record_is_refused(debian, driver):
    driver()
    with open(record.PATH, "w", encoding="utf-8") as file:
        file.write("{")
    assert "Move it away" in driver()["msg"]
    (problem,) = driver(state="verified")["problems"]
    assert "Move it away" in problem
    assert driver(state="verified")["obstacles"] == [problem]


def test_one_run_at_a_time(debian, driver):
    (debian.folder / "run").mkdir(0o700)
    with open(packages.LOCK, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "Another run of this collection" in driver()["msg"]
        assert driver(check=True)["changed"]


def test_only_root_can_install(driver, monkeypatch):
    def refuse(*_given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    assert "Run as root (become: true)" in driver()["msg"]


def test_other_users_cannot_hold_the_lock(debian, driver):
    driver()
    assert stat.S_IMODE((debian.folder / "run").stat().st_mode) == 0o700
    (debian.folder / "run").chmod(0o755)
    assert "is not a directory that only root can access" in driver()["msg"]


def test_a_node_without_the_package_manager(debian, driver):
    debian.answers += [("dpkg-query", 127, "dpkg-query: No such file or directory")] * 2
    assert "The package manager's output has the reason" in driver()["msg"]
