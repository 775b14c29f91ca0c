# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_packages: installation, holds and removal, on a node whose package managers are fakes."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import (
    installation,
)
from ansible_collections.gpufleet.node.plugins.modules import node_packages
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.node_packages_support import (
    CUDA,
    DRIVER,
    LIBRARY,
    NEW,
    OLD,
    TOOL,
    Debian,
    pinned,
    recorded,
)

from .module_support import cycle, run


def test_create_change_and_remove(debian, driver):
    def snapshot():
        return json.dumps([debian.state, pinned(debian), recorded()])

    for values in ({"version": "580.105.08"}, {"version": "580.126.20"}, {"state": "absent"}):
        cycle(driver, snapshot, **values)
    assert (debian.state, pinned(debian)) == ({}, None)


# --- Install ----------------------------------------------------------------------------------------------------------


def test_installs_pins_holds_and_records(debian, driver):
    result = driver()
    assert (result["changed"], result["version"], result["would_install"]) == (True, "580.126.20", False)
    assert debian.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    assert "Package: *nvidia* libcuda*\nPin: version 580.126.20-*\nPin-Priority: 1001\n" in pinned(debian)
    assert recorded() == {"installed": [LIBRARY, CUDA], "held": [LIBRARY, CUDA], "version": "580.126.20"}
    assert result["installed"] == result["held"] == [LIBRARY, CUDA]
    assert result["diff"]["after"] == "libcuda1 %s held\nnvidia-driver-cuda %s held\n" % (NEW, NEW)


def test_a_second_run_changes_nothing_and_does_not_refresh_package_lists(debian, driver):
    driver()
    debian.calls.clear()
    result = driver()
    assert (result["changed"], result["version"]) == (False, "580.126.20")
    assert {line.split()[0] for line in debian.calls} == {"dpkg-query"}


def test_packages_installed_before_are_not_recorded(debian, driver):
    debian.install(LIBRARY, NEW)
    driver()
    assert recorded()["installed"] == [CUDA]
    assert recorded()["held"] == [LIBRARY, CUDA]


def test_upgrades_only_on_request(debian, driver):
    driver(version="580.105.08")
    assert driver()["changed"] is False
    result = driver(upgrade=True)
    assert (result["changed"], result["version"]) == (True, "580.126.20")
    assert debian.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    assert "580.126.20-*" in pinned(debian)
    assert "--allow-downgrades" not in debian.calls[-1]


def test_a_newer_driver_of_the_distribution_is_not_used(debian, driver):
    debian.archive = [(CUDA, "580.142-0ubuntu0.24.04.1"), (TOOL, "2-1")]
    result = driver(
        packages=[CUDA, TOOL], independent=[TOOL], repository={"url": "http://me:secret@mirror.example/cuda/"}
    )
    assert result["version"] == "580.126.20"
    assert driver(packages=[CUDA], repository={}, upgrade=True, check=True)["version"] == "580.142"


def test_an_older_version(debian, driver):
    assert "warnings" not in driver()
    words = "driver 580.126.20 is installed, and 580.105.08 is requested, which is a downgrade"
    assert words in json.dumps(driver(version="580.105.08", check=True)["warnings"])
    assert driver(version="580.105.08")["version"] == "580.105.08"
    assert debian.state[CUDA] == ["hi ", OLD]
    assert debian.called("--yes --allow-downgrades .*install nvidia-driver-cuda=" + OLD)


@pytest.mark.parametrize("installed, requested", [(NEW, "580.105.08"), (OLD, "580.105.08~rc1")])
def test_an_older_version_of_one_package(debian, driver, installed, requested):
    """As an interrupted upgrade leaves it: most packages have the requested version."""
    debian.offers = {name: [NEW, OLD, "580.105.08~rc1-1"] for name in (CUDA, LIBRARY, TOOL, "nvidia-settings")}
    for name in (CUDA, LIBRARY, TOOL, "nvidia-settings"):
        debian.install(name, installed if name == CUDA else requested + "-1")
    given = {"version": requested, "packages": [CUDA, TOOL, "nvidia-settings"]}
    words = "%s %s is installed, and %s is requested, which is a downgrade" % (CUDA, installed, requested)
    for check in (True, False):
        assert words in json.dumps(driver(**given, check=check)["warnings"])
    assert {version for _status, version in debian.state.values()} == {requested + "-1"}
    assert "warnings" not in driver(**given)


def test_without_hold_the_branch_is_pinned(debian, driver):
    driver()
    result = driver(hold=False)
    assert result["changed"]
    assert debian.state[CUDA] == ["ii ", NEW]
    assert "Pin: version 580.*\n" in pinned(debian)
    assert recorded()["held"] == []


def test_foreign_holds_are_kept(debian, driver):
    debian.install(LIBRARY, OLD, "hi ")
    debian.install(CUDA, OLD)
    driver()
    assert recorded()["held"] == [CUDA]
    result = driver(upgrade=True)
    assert "somebody else holds libcuda1 %s, which blocks driver 580.126.20" % OLD in result["msg"]
    assert debian.state == {LIBRARY: ["hi ", OLD], CUDA: ["hi ", OLD]}


def test_a_removed_hold_is_set_again(debian, driver):
    driver()
    debian.state[CUDA][0] = "ii "
    verified = driver(state="verified")
    assert verified["problems"] == [
        "not held, so a system upgrade changes the version: %s. Run site.yml --tags driver" % CUDA
    ]
    assert verified["differences"] == []  # a hold interrupts nothing, so that the node is not drained for it
    assert driver(check=True)["changed"]
    assert driver()["changed"]
    assert driver()["changed"] is False
    assert recorded()["held"] == [LIBRARY, CUDA]


def test_holds_of_an_interrupted_run_belong_to_the_role(debian, driver, monkeypatch):
    debian.install(CUDA, NEW)
    debian.install(LIBRARY, NEW, "hi ")
    with monkeypatch.context() as patch:
        patch.setattr(installation, "record_packages", lambda *_given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver()
    assert debian.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    driver()
    assert recorded()["held"] == [CUDA]


def test_a_module_that_dkms_has_not_built_is_a_change(debian):
    class Unbuilt(Debian):
        built = ""

        def __call__(self, argv, data=None, **_more):
            if argv[0] == "rpm":
                return 0, "%s\t3:580.126.20-1\tx86_64\n" % CUDA, ""
            if argv[:2] == ["dkms", "install"]:
                self.built = "nvidia/580.126.20, %s, x86_64: installed\n" % argv[-1]
            return 0, "nvidia/580.126.20: added\n" + self.built if argv[0] == "dkms" else "", ""

    debian.__class__ = Unbuilt
    given = {**DRIVER, "manager": "dnf", "hold": False, "dkms": True}
    results = [run(node_packages.main, check, **given) for check in (True, False, True, False)]
    assert [result["changed"] for result in results] == [True, True, False, False]
    assert run(node_packages.main, **given, state="verified")["up_to_date"]
    debian.built = ""
    assert not run(node_packages.main, **given, state="verified")["up_to_date"]
    assert debian.built == ""


def test_optional_packages_only_if_they_fit(debian, driver):
    debian.answers.append(("--simulate.*" + TOOL, 100, "E: unmet dependencies"))
    driver(optional_packages=[TOOL])
    assert TOOL not in debian.state
    debian.state.clear()
    driver(optional_packages=[TOOL])
    assert TOOL in debian.state


def test_packages_of_any_version(debian, driver):
    driver()
    held = recorded()["held"]
    pin = pinned(debian)
    debian.offers["runc"] = ["1.1"]
    result = run(node_packages.main, manager="apt", role="nvidia_driver", packages=["runc"])
    assert (result["changed"], result["version"]) == (True, None)
    assert debian.state["runc"] == ["ii ", "1.1"]
    assert recorded() == {"installed": [LIBRARY, CUDA, "runc"], "held": held, "version": "580.126.20"}
    assert pinned(debian) == pin


@pytest.mark.parametrize("check", [True, False])
def test_packages_that_the_role_did_not_install_are_not_removed(debian, driver, check):
    debian.install("game", "1")
    debian.conflicts = {LIBRARY: ["game"]}
    message = driver(check)["msg"]
    assert message == (
        "installing nvidia-driver-cuda=%s would remove game, which this role does not manage: remove it yourself, "
        "or choose another branch or version" % NEW
    )
    assert (list(debian.state), pinned(debian), recorded()) == (["game"], None, {})


def test_the_old_branch_is_removed(debian, driver):
    debian.install("libnvidia-old:i386", "1")
    debian.install("helper", "1")
    record.update("nvidia_driver", {}, {"dependencies": ["helper"]})
    debian.conflicts = {LIBRARY: ["libnvidia-old:i386", "helper"]}
    assert driver(check=True)["msg"].endswith("libcuda1=%s, and remove libnvidia-old:i386, helper." % NEW)
    driver()
    assert list(debian.state) == [CUDA, LIBRARY]


def test_an_optional_package_does_not_remove_other_packages(debian, driver):
    debian.install("game", "1")
    debian.conflicts = {TOOL: ["game"]}
    driver(optional_packages=[TOOL])
    assert sorted(debian.state) == ["game", LIBRARY, CUDA]


def test_the_simulation_ignores_an_old_pin(debian, driver):
    driver(version="580.105.08")
    driver(hold=False, branch="", version="580.126.20")
    assert pinned(debian) is None
    assert debian.called("--simulate.*PreferencesParts=.*=" + NEW)


# --- Remove -----------------------------------------------------------------------------------------------------------


def test_removes_what_it_installed_and_releases_what_it_held(debian, driver):
    debian.install(LIBRARY, NEW)
    driver()
    preview = driver(check=True, state="absent")
    assert preview["changed"]
    assert preview["diff"]["after"] == "libcuda1 %s held\n" % NEW
    assert driver(state="absent")["changed"]
    assert debian.state == {LIBRARY: ["ii ", NEW]}
    assert pinned(debian) is None
    assert driver(state="absent")["changed"] is False


def test_packages_that_others_need_are_kept(debian, driver):
    driver()
    debian.install("game", "1")
    debian.needs["game"] = [LIBRARY]
    result = driver(state="absent")
    assert result["kept"] == [LIBRARY]
    assert sorted(debian.state) == ["game", LIBRARY]


def test_packages_installed_as_dependencies_may_be_removed(debian, driver):
    debian.needs.update({CUDA: [LIBRARY, "glx"], "glx": [CUDA]})
    debian.offers["glx"] = [NEW]
    driver()
    assert recorded()["dependencies"] == ["glx"]
    result = driver(state="absent")
    assert (result["kept"], debian.state) == ([], {})


@pytest.mark.parametrize("check", [True, False])
def test_a_node_that_lists_no_package_keeps_its_record(debian, driver, check):
    driver()
    before = recorded()
    debian.state.clear()
    assert "lists no package at all" in driver(check, state="absent")["msg"]
    assert recorded() == before
    assert pinned(debian)


@pytest.mark.parametrize("check", [True, False])
def test_packages_that_somebody_else_holds_are_not_removed(debian, driver, check):
    driver(hold=False)
    debian.state[CUDA][0] = "hi "
    before = json.dumps([debian.state, recorded(), pinned(debian)])
    message = driver(check, state="absent")["msg"]
    assert message.startswith("somebody else holds nvidia-driver-cuda, which nvidia_driver installed")
    assert json.dumps([debian.state, recorded(), pinned(debian)]) == before
    debian.state[CUDA][0] = "ii "
    assert driver(check, state="absent")["changed"]


def test_nothing_is_removed_without_a_record(debian, driver):
    debian.install(CUDA, NEW, "hi ")
    assert driver(state="absent")["changed"] is False
    assert debian.state == {CUDA: ["hi ", NEW]}
