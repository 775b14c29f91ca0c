# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_packages on a node whose apt, dpkg, dnf and dkms are fakes with a state."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import (
    apt,
    dkms,
    dnf,
    installation,
    manager,
)
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import node_packages as packages
from ansible_collections.gpufleet.node.plugins.modules import node_packages

from .module_support import cycle, run

OLD, NEW = "580.105.08-1", "580.126.20-1"
CUDA, LIBRARY, TOOL = "nvidia-driver-cuda", "libcuda1", "nvidia-modprobe"
URL, ARCHIVE = "http://mirror.example/cuda", "http://archive.example/ubuntu noble/restricted amd64"
INSTALL = "^(?!.*--simulate).*--yes "  # the pattern of the command that changes packages
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7"
DRIVER = {
    "role": "nvidia_driver",
    "packages": [CUDA],
    "branch": "580",
    "family": ["*nvidia*", "libcuda*", "!*container*"],
    "repository": {"url": URL},
    "lock_timeout": 0,
}


class Debian:
    """Answers the commands of apt and dpkg. CUDA depends on LIBRARY of the same version."""

    def __init__(self):
        self.state = {}  # name: [status, version]
        self.offers = {CUDA: [NEW, OLD], LIBRARY: [NEW, OLD], TOOL: ["1-1"]}
        self.archive = []  # (name, version) that the distribution offers
        self.needs = {CUDA: [LIBRARY]}
        self.conflicts = {}
        self.calls = []
        self.answers = []  # (pattern of the command, status, stderr); each once

    def install(self, name, version, status="ii "):
        self.state[name] = [status, version]

    def __call__(self, argv, data=None, **_more):
        words = [word for word in argv if not word.startswith("-") and ":" not in word]
        line = " ".join(argv)
        self.calls.append(line)
        for answer in self.answers:
            if re.search(answer[0], line):
                self.answers.remove(answer)
                return answer[1], "", answer[2]
        if words[0] == "dpkg-query":
            rows = sorted(self.state.items())
            return 0, "".join("%s\t%s\t%s\n" % (status, name, version) for name, (status, version) in rows), ""
        if words[:2] == ["apt-cache", "madison"]:
            rows = [(name, version, URL) for name in words[2:] for version in self.offers.get(name, ())]
            rows = [(*row, ARCHIVE) for row in self.archive if row[0] in words] + rows
            return 0, "".join(" %s | %s | %s  Packages\n" % row for row in rows), ""
        if words[0] == "sh" and data:
            for selection in data.splitlines():
                name, wanted = selection.split()
                self.state[name][0] = wanted[0] + self.state[name][0][1:]
            return 0, "", ""
        if words[0] == "dpkg":
            for row in self.state.values():
                row[0] = row[0].replace("F", "i")
            return 0, "", ""
        if words[1] in ("update", "check"):
            return 0, "", ""
        if words[1] == "purge":
            return self.purge(words[2:], "--simulate" in argv)
        return self.get(words[2:], "--simulate" in argv, "Dir::State::status" in line)

    def get(self, specifications, simulate, released):
        coming = {}
        for specification in specifications:
            name, version = ([*specification.split("="), None])[:2]
            coming[name] = version or self.offers[name][0]
            coming.update(dict.fromkeys(self.needs.get(name, ()), coming[name]))
        held = [name for name in coming if self.state.get(name, "i")[0][0] == "h" and not released]
        if any(self.state[name][1] != coming[name] for name in held):
            return 100, "", "E: Unable to correct problems, you have held broken packages.\nunmet dependencies"
        printed = "".join("Inst %s (%s)\n" % row for row in coming.items() if row[0] not in self.state)
        gone = [each for name in coming for each in self.conflicts.get(name, ()) if each in self.state]
        printed += "".join("Remv %s [1]\n" % name for name in gone)
        if not simulate:
            for name in gone:
                del self.state[name]
            for name, version in coming.items():
                assert self.state.get(name, ["i"])[0][0] != "h", "%s is held" % name
                self.install(name, version)
        return 0, printed, ""

    def purge(self, names, simulate):
        gone = {name for name in names if name in self.state}
        gone |= {name for name, needs in self.needs.items() if name in self.state and gone & set(needs)}
        if not simulate:
            for name in gone:
                assert self.state.pop(name)[0][0] != "h"
        return 0, "".join("Purg %s [1]\n" % name for name in sorted(gone)), ""

    def called(self, pattern):
        return [line for line in self.calls if re.search(pattern, line)]


@pytest.fixture(name="node")
def fixture_node(tmp_path, monkeypatch):
    fake = Debian()
    monkeypatch.setattr(
        "ansible.module_utils.basic.AnsibleModule.run_command", lambda _module, *given, **more: fake(*given, **more)
    )
    monkeypatch.setattr(record, "PATH", str(tmp_path / "facts.d" / "gpufleet.fact"))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    monkeypatch.setattr(packages, "LOCK", str(tmp_path / "run" / "packages.lock"))
    monkeypatch.setattr(apt, "PREFERENCES", str(tmp_path / "preferences.d"))
    monkeypatch.setattr(apt, "SOURCES", str(tmp_path / "sources.list"))
    monkeypatch.setattr(apt, "PAUSE", 0.0)
    monkeypatch.setattr(manager, "PAUSE", 0.0)
    monkeypatch.setattr(dkms, "STATE", str(tmp_path / "dkms"))
    monkeypatch.setattr(dnf, "LOCKS", str(tmp_path / "versionlock.list"))
    monkeypatch.setattr(dnf, "PLUGIN", (str(tmp_path), "python3-dnf-plugin-versionlock"))
    fake.folder = tmp_path
    return fake


@pytest.fixture(name="driver")
def fixture_driver(node):
    return lambda check=False, **more: run(node_packages.main, check, **{"manager": "apt", **DRIVER, **more})


def recorded(role="nvidia_driver"):
    return record.read(role)


def pinned(node):
    path = node.folder / "preferences.d" / "gpufleet-nvidia-driver"
    return path.read_text() if path.exists() else None


def test_create_change_and_remove(node, driver):
    def snapshot():
        return json.dumps([node.state, pinned(node), recorded()])

    for values in ({"version": "580.105.08"}, {"version": "580.126.20"}, {"state": "absent"}):
        cycle(driver, snapshot, **values)
    assert (node.state, pinned(node)) == ({}, None)


# --- Install ----------------------------------------------------------------------------------------------------------


def test_installs_pins_holds_and_records(node, driver):
    result = driver()
    assert (result["changed"], result["version"], result["pending"]) == (True, "580.126.20", False)
    assert node.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    assert "Package: *nvidia* libcuda*\nPin: version 580.126.20-*\nPin-Priority: 1001\n" in pinned(node)
    assert recorded() == {"installed": [LIBRARY, CUDA], "held": [LIBRARY, CUDA], "version": "580.126.20"}
    assert result["installed"] == result["held"] == [LIBRARY, CUDA]
    assert result["diff"]["after"] == "libcuda1 %s held\nnvidia-driver-cuda %s held\n" % (NEW, NEW)


def test_a_second_run_changes_nothing_and_does_not_refresh_package_lists(node, driver):
    driver()
    node.calls.clear()
    result = driver()
    assert (result["changed"], result["version"]) == (False, "580.126.20")
    assert {line.split()[0] for line in node.calls} == {"dpkg-query"}


def test_packages_installed_before_are_not_recorded(node, driver):
    node.install(LIBRARY, NEW)
    driver()
    assert recorded()["installed"] == [CUDA]
    assert recorded()["held"] == [LIBRARY, CUDA]


def test_upgrades_only_on_request(node, driver):
    driver(version="580.105.08")
    assert driver()["changed"] is False
    result = driver(upgrade=True)
    assert (result["changed"], result["version"]) == (True, "580.126.20")
    assert node.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    assert "580.126.20-*" in pinned(node)
    assert "--allow-downgrades" not in node.calls[-1]


def test_a_newer_driver_of_the_distribution_is_not_used(node, driver):
    node.archive = [(CUDA, "580.142-0ubuntu0.24.04.1"), (TOOL, "2-1")]
    result = driver(
        packages=[CUDA, TOOL], independent=[TOOL], repository={"url": "http://me:secret@mirror.example/cuda/"}
    )
    assert result["version"] == "580.126.20"
    assert driver(packages=[CUDA], repository={}, upgrade=True, check=True)["version"] == "580.142"


def test_an_older_version(node, driver):
    driver()
    assert driver(version="580.105.08")["version"] == "580.105.08"
    assert node.state[CUDA] == ["hi ", OLD]
    assert node.called("--yes --allow-downgrades .*install nvidia-driver-cuda=" + OLD)


def test_without_hold_the_branch_is_pinned(node, driver):
    driver()
    result = driver(hold=False)
    assert result["changed"]
    assert node.state[CUDA] == ["ii ", NEW]
    assert "Pin: version 580.*\n" in pinned(node)
    assert recorded()["held"] == []


def test_foreign_holds_are_kept(node, driver):
    node.install(LIBRARY, OLD, "hi ")
    node.install(CUDA, OLD)
    driver()
    assert recorded()["held"] == [CUDA]
    result = driver(upgrade=True)
    assert "somebody else holds libcuda1 %s, which blocks driver 580.126.20" % OLD in result["msg"]
    assert node.state == {LIBRARY: ["hi ", OLD], CUDA: ["hi ", OLD]}


def test_a_removed_hold_is_set_again(node, driver):
    driver()
    node.state[CUDA][0] = "ii "
    verified = driver(state="verified")
    assert verified["problems"] == [
        "not held, so a system upgrade changes the version: %s. Run site.yml --tags driver" % CUDA
    ]
    assert verified["differences"] == []  # a hold interrupts nothing, so that the node is not drained for it
    assert driver(check=True)["changed"]
    assert driver()["changed"]
    assert driver()["changed"] is False
    assert recorded()["held"] == [LIBRARY, CUDA]


def test_holds_of_an_interrupted_run_belong_to_the_role(node, driver, monkeypatch):
    node.install(CUDA, NEW)
    node.install(LIBRARY, NEW, "hi ")
    with monkeypatch.context() as patch:
        patch.setattr(installation, "record_packages", lambda *_given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver()
    assert node.state == {CUDA: ["hi ", NEW], LIBRARY: ["hi ", NEW]}
    driver()
    assert recorded()["held"] == [CUDA]


def test_lines_of_versionlock_are_a_change(node):
    class Rpm(Debian):
        def __call__(self, argv, data=None, **_more):
            return 0, "%s\t0:580.126.20-1\tx86_64\n" % CUDA if argv[0] == "rpm" else "", ""

    node.__class__ = Rpm
    (node.folder / "versionlock.conf").touch()
    for hold in (True, False):
        results = [
            run(node_packages.main, check, manager="dnf", **{**DRIVER, "hold": hold})
            for check in (True, False, True, False)
        ]
        assert [result["changed"] for result in results] == [True, True, False, False]


class Rpm(Debian):
    """Answers the commands of rpm and dnf. The driver is upgraded together with the headers."""

    table = "Upgrading:\n %s x86_64 3:580.126.20-1 cuda 1 k\n kernel-devel x86_64 5.14.0-503.el9 base 1 k\n" % CUDA

    def __call__(self, argv, data=None, **_more):
        self.calls.append(" ".join(argv))
        if argv[0] == "rpm":
            return 0, "%s\t3:580.105.08-1\tx86_64\nkernel-devel\t0:5.14.0-427.el9\tx86_64\n" % CUDA, ""
        if "repoquery" in argv:
            words = {"name": CUDA, "evr": "3:580.126.20-1", "arch": "x86_64", "repoid": "cuda"}
            form = argv[argv.index("--queryformat") + 1]
            return 0, re.sub(r"%{(\w+)}", lambda match: words[match.group(1)], form), ""
        return 0, self.table, ""


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "lock, table, words",
    [
        ("kernel-devel-0:5.14.0-427.el9.*", "", "somebody else locks kernel-devel-0:5.14.0-427.el9.*, which blocks"),
        ("", "     replacing  game.x86_64 1-1\n", "would remove game, which this role does not manage"),
    ],
)
def test_dnf_changes_no_packages_of_others(node, lock, table, words, check):
    node.__class__ = Rpm
    node.table += table
    (node.folder / "versionlock.list").write_text(lock + "\n")
    assert words in run(node_packages.main, check, manager="dnf", **{**DRIVER, "upgrade": True})["msg"]
    assert not node.called("--assumeyes (?!.*--assumeno).* install ")


def test_a_stream_that_is_not_enabled_is_a_change(node, monkeypatch):
    class Modular(Rpm):
        def __call__(self, argv, data=None, **more):
            if "module" in argv and "enable" in argv:
                (node.folder / "nvidia-driver.module").write_text("stream=580-open\n")
            return super().__call__(argv, data, **more)

    node.__class__ = Modular
    monkeypatch.setattr(dnf, "MODULES", str(node.folder))
    given = {"branch": "580", "hold": False, "stream": "nvidia-driver:580-open", "repository": {"added": True}}
    results = [run(node_packages.main, check, manager="dnf", **{**DRIVER, **given}) for check in (True, False, True)]
    assert [result["changed"] for result in results] == [True, True, False]


def test_a_module_that_dkms_has_not_built_is_a_change(node):
    class Unbuilt(Debian):
        built = ""

        def __call__(self, argv, data=None, **_more):
            if argv[0] == "rpm":
                return 0, "%s\t3:580.126.20-1\tx86_64\n" % CUDA, ""
            if argv[:2] == ["dkms", "install"]:
                self.built = "nvidia/580.126.20, %s, x86_64: installed\n" % argv[-1]
            return 0, "nvidia/580.126.20: added\n" + self.built if argv[0] == "dkms" else "", ""

    node.__class__ = Unbuilt
    results = [
        run(node_packages.main, check, manager="dnf", **{**DRIVER, "hold": False, "dkms": True})
        for check in (True, False, True, False)
    ]
    assert [result["changed"] for result in results] == [True, True, False, False]


def test_optional_packages_only_if_they_fit(node, driver):
    node.answers.append(("--simulate.*" + TOOL, 100, "E: unmet dependencies"))
    driver(optional_packages=[TOOL])
    assert TOOL not in node.state
    node.state.clear()
    driver(optional_packages=[TOOL])
    assert TOOL in node.state


def test_packages_of_any_version(node, driver):
    driver()
    held = recorded()["held"]
    pin = pinned(node)
    node.offers["runc"] = ["1.1"]
    result = run(node_packages.main, manager="apt", role="nvidia_driver", packages=["runc"])
    assert (result["changed"], result["version"]) == (True, None)
    assert node.state["runc"] == ["ii ", "1.1"]
    assert recorded() == {"installed": [LIBRARY, CUDA, "runc"], "held": held, "version": "580.126.20"}
    assert pinned(node) == pin


@pytest.mark.parametrize("check", [True, False])
def test_packages_that_the_role_did_not_install_are_not_removed(node, driver, check):
    node.install("game", "1")
    node.conflicts = {LIBRARY: ["game"]}
    message = driver(check)["msg"]
    assert message == (
        "installing nvidia-driver-cuda=%s would remove game, which this role does not manage: remove it yourself, "
        "or choose another branch or version" % NEW
    )
    assert (list(node.state), pinned(node), recorded()) == (["game"], None, {})


def test_the_old_branch_is_removed(node, driver):
    node.install("libnvidia-old:i386", "1")
    node.install("helper", "1")
    record.update("nvidia_driver", {}, {"dependencies": ["helper"]})
    node.conflicts = {LIBRARY: ["libnvidia-old:i386", "helper"]}
    assert driver(check=True)["msg"].endswith("libcuda1=%s, and remove libnvidia-old:i386, helper." % NEW)
    driver()
    assert list(node.state) == [CUDA, LIBRARY]


def test_an_optional_package_does_not_remove_other_packages(node, driver):
    node.install("game", "1")
    node.conflicts = {TOOL: ["game"]}
    driver(optional_packages=[TOOL])
    assert sorted(node.state) == ["game", LIBRARY, CUDA]


def test_the_simulation_ignores_an_old_pin(node, driver):
    driver(version="580.105.08")
    driver(hold=False, branch="", version="580.126.20")
    assert pinned(node) is None
    assert node.called("--simulate.*PreferencesParts=.*=" + NEW)


# --- Check mode -------------------------------------------------------------------------------------------------------


def test_check_mode_with_known_package_sources(node, driver):
    result = driver(check=True)
    assert (result["changed"], result["version"], result["pending"]) == (True, "580.126.20", True)
    assert result["msg"] == "Would install nvidia-driver-cuda=%s, libcuda1=%s." % (NEW, NEW)
    assert "would install nvidia-driver-cuda=" + NEW in result["diff"]["after"]
    assert node.state == {}
    assert pinned(node) is None
    assert recorded() == {}
    assert node.called("--simulate .*PreferencesParts=.*/preferences.d")
    assert not node.called("update")


@pytest.mark.parametrize("added", [True, False])
def test_check_mode_without_package_lists(node, driver, added):
    node.offers = {CUDA: [OLD]} if added else {}
    result = driver(check=True, repository={"url": URL, "added": added})
    assert (result["changed"], result["version"], result["pending"]) == (True, None, True)
    assert "Would install nvidia-driver-cuda of branch 580 from http://mirror.example/cuda" in result["msg"]
    assert "The exact version is not known" in result["msg"]
    result = driver(check=True, version="580.126.20", repository={"url": URL, "added": added})
    assert result["version"] == "580.126.20"


def test_check_mode_reports_unavailable_packages(node, driver):
    node.answers.append(("--simulate", 100, "The following packages have unmet dependencies:"))
    assert "have conflicting dependencies" in driver(check=True)["msg"]


def test_verified_reads_only(node, driver):
    result = driver(state="verified")
    assert result["changed"] is False
    assert "no package of the driver is installed" in result["problems"][0]
    assert result["problems"] == [each + ". Run site.yml --tags driver" for each in result["differences"]]
    driver()
    node.calls.clear()
    assert driver(state="verified")["problems"] == []
    assert {line.split()[0] for line in node.calls} == {"dpkg-query"}


@pytest.mark.parametrize("manager, found", [("apt", True), ("dnf", False)])
def test_sources_with_another_key_are_obstacles(node, driver, manager, found):
    folder = node.folder / "sources.list.d"
    folder.mkdir()
    own, other = folder / "gpufleet.sources", folder / "cuda.list"
    own.write_text("deb [signed-by=/old.asc] %s /\n" % URL)
    if manager == "dnf":
        node.__class__ = Rpm
    given = {"state": "verified", "manager": manager}
    repository = {"url": URL, "file": str(own), "key": "/own.asc"}
    result = driver(**given, repository=repository)
    assert (result["changed"], result["obstacles"]) == (False, [])
    other.write_text("deb [signed-by=/other.gpg] %s /\n" % URL)
    problems = driver(**given, repository=repository)["obstacles"]
    assert [text.startswith("%s has the repository %s with another key" % (other, URL)) for text in problems] == (
        [True] * found
    )
    assert not node.called("update|install")


@pytest.mark.parametrize(
    "wanted, blocked",
    [
        ({"branch": "570"}, "of branch 570"),  # whose newest version is not known before the package lists are read
        ({"version": "580.126.20"}, "580.126.20"),
        ({"upgrade": True}, "580.126.20"),
        ({}, None),
        ({"version": "580.105.08"}, None),
    ],
)
def test_foreign_holds_are_obstacles(node, driver, wanted, blocked):
    driver(version="580.105.08", hold=False)
    assert driver(state="verified", **wanted)["obstacles"] == []
    node.state[LIBRARY][0] = "hi "
    node.calls.clear()
    problems = driver(state="verified", **wanted)["obstacles"]
    words = "somebody else holds libcuda1 %s, which blocks driver %s. Release them (apt-mark unhold), or set" % (
        OLD,
        blocked,
    )
    assert [text[: len(words)] for text in problems] == ([words] if blocked else [])
    assert not node.called("update|install")


def test_foreign_locks_are_obstacles(node):
    node.__class__ = Rpm
    lock = "%s-3:580.105.08-1.*" % CUDA
    (node.folder / "versionlock.list").write_text(lock + "\n")
    given = {**DRIVER, "state": "verified", "manager": "dnf"}
    assert run(node_packages.main, **given)["obstacles"] == []
    (problem,) = run(node_packages.main, **{**given, "upgrade": True})["obstacles"]
    assert problem.startswith("somebody else locks %s, which blocks driver 580.126.20. Release" % lock)
    record.update("nvidia_driver", {"held": [lock]}, {})
    assert run(node_packages.main, **{**given, "upgrade": True})["obstacles"] == []


# --- Errors -----------------------------------------------------------------------------------------------------------


def test_half_installed_packages_are_configured(node, driver):
    driver()
    node.state[CUDA][0] = "hF "
    assert driver(check=True)["changed"]
    assert driver()["changed"]
    assert node.state[CUDA] == ["hi ", NEW]
    assert node.called("^dpkg --configure --pending")


def test_waits_for_a_running_installation(node, driver):
    driver()
    node.state[CUDA][0] = "hF "
    node.answers += [("apt-get --quiet check", 100, LOCKED)] * 2
    node.calls.clear()
    assert driver(lock_timeout=60, state="verified")["problems"] != []
    assert len(node.called("apt-get --quiet check")) == 3


def test_waiting_for_the_lock_is_limited(node, driver):
    node.answers.append((INSTALL, 100, LOCKED))
    message = driver()["msg"]
    assert message.startswith("Another package manager is running on the node: wait for it to finish")
    assert "lock-frontend" in message
    assert recorded()["installed"] == []


def test_a_failed_build_is_reported_with_the_end_of_its_log(node, driver):
    log = node.folder / "dkms" / "nvidia" / "580.126.20" / "build" / "make.log"
    log.parent.mkdir(parents=True)
    log.write_text("make\nnv-pci.c:237: error: too few arguments\n")

    def half(argv):
        node.install(CUDA, NEW, "iF ")
        return argv

    node.answers.append((INSTALL, 100, "Error! Bad return status for module build on kernel: 6.12"))
    node.get = lambda *_given: (half(0), "", "")
    node.install(CUDA, NEW, "iF ")
    node.answers.append(("dpkg --configure", 1, "dpkg: error processing package"))
    message = driver()["msg"]
    assert "The kernel module could not be built" in message
    assert "Half installed: nvidia-driver-cuda (half-configured)" in message
    assert "The end of %s:\nmake\nnv-pci.c:237: error: too few arguments" % log in message
    assert "Output of the package manager:\nError! Bad return status" in message


def cut_off(node):
    """The next installations install one package and fail."""
    real = node.get

    def get(specifications, simulate, released):
        if simulate:
            return real(specifications, simulate, released)
        node.install(LIBRARY, NEW)
        return 100, "", "E: No space left on device"

    node.get = get
    return real


def test_a_partial_installation_is_recorded(node, driver):
    real = cut_off(node)
    assert "no space left" in driver()["msg"]
    assert recorded() == {"installed": [LIBRARY]}
    node.get = real
    driver()
    assert recorded()["installed"] == [LIBRARY, CUDA]


def test_own_holds_are_kept_after_a_failed_upgrade(node, driver):
    driver(version="580.105.08")
    node.answers.append((INSTALL, 100, "E: Failed to fetch http://mirror.example"))
    assert "cannot be reached" in driver(upgrade=True)["msg"]
    assert node.state == {CUDA: ["hi ", OLD], LIBRARY: ["hi ", OLD]}


@pytest.mark.parametrize("lost", [INSTALL, "^sh "], ids=["install", "release"])
def test_an_upgrade_that_installs_nothing_restores_the_pin(node, driver, lost):
    driver(version="580.105.08")
    before = pinned(node)
    node.answers.append((lost, 100, LOCKED))
    assert "Another package manager" in driver(upgrade=True)["msg"]
    assert pinned(node) == before
    assert node.state == {CUDA: ["hi ", OLD], LIBRARY: ["hi ", OLD]}


def test_an_installation_that_installs_nothing_leaves_no_pin(node, driver):
    node.answers.append((INSTALL, 100, LOCKED))
    driver()
    assert pinned(node) is None


def test_a_partial_upgrade_keeps_the_pin_of_its_version(node, driver):
    driver(version="580.105.08")
    cut_off(node)
    driver(upgrade=True)
    assert "580.126.20-*" in pinned(node)


UNSIGNED = "E: The repository '%s ./ Release' is not signed." % URL


@pytest.mark.parametrize(
    "added, had, withdrawn", [(True, {"version": "1"}, True), (False, {}, True), (False, {"installed": [CUDA]}, False)]
)
def test_an_unreadable_source_of_the_role_is_an_error_and_is_removed(node, driver, added, had, withdrawn):
    record.update("nvidia_driver", had, {})
    source = node.folder / "gpufleet.sources"
    source.write_text("")
    node.answers.append(("update", 100, UNSIGNED))
    message = driver(repository={"url": URL + "/", "file": str(source), "added": added})["msg"]
    assert "cannot be used" in message
    assert "check the variables nvidia_driver_repository_*, and the package" in message
    assert ("was removed again" in message) == withdrawn
    assert source.exists() != withdrawn


def test_the_roles_source_is_kept_if_another_one_is_broken(node, driver):
    source = node.folder / "gpufleet.sources"
    source.write_text("")
    node.answers.append(("update", 100, UNSIGNED.replace("mirror", "other")))
    message = driver(repository={"url": URL, "file": str(source), "added": True})["msg"]
    assert message.startswith("The package sources cannot be used (the role's is %s)." % URL)
    assert source.exists()


def test_dnf_names_the_section_of_the_file(node, driver):
    source = node.folder / "gpufleet.repo"
    source.write_text("[gpufleet-cuda]\nbaseurl=%s\n" % URL)
    words = "Error: Failed to download metadata for repo 'gpufleet-cuda': repomd.xml GPG signature verification error"
    node.answers.append(("update", 100, words))
    assert "was removed again" in driver(repository={"url": URL, "file": str(source), "added": True})["msg"]
    assert not source.exists()


def test_apt_warnings_about_a_rotated_key_are_errors(node, driver):
    node.answers.append(("update", 0, "W: GPG error: %s ./ InRelease: NO_PUBKEY 0123456789ABCDEF" % URL))
    assert "NO_PUBKEY" in driver()["msg"]


def test_another_source_that_cannot_be_read_is_a_warning(node, driver):
    words = "W: Failed to fetch http://other.example/InRelease  Could not resolve"
    node.answers += [("update", 0, words)] * 3
    result = driver()
    assert result["version"] == "580.126.20"
    assert words in json.dumps(result["warnings"])


def test_a_transient_error_is_retried(node, driver):
    node.answers.append(("update", 100, "E: Failed to fetch %s/Packages  Hash Sum mismatch" % URL))
    assert driver()["version"] == "580.126.20"


def test_an_unavailable_version(node, driver):
    message = driver(version="580.1.2")["msg"]
    assert message.startswith(
        "driver 580.1.2 cannot be installed: nvidia-driver-cuda is offered as 580.126.20, 580.105.08"
    )
    assert pinned(node) is None


def test_a_damaged_record_is_refused(node, driver):
    driver()
    with open(record.PATH, "w", encoding="utf-8") as file:
        file.write("{")
    assert "Move it away" in driver()["msg"]
    (problem,) = driver(state="verified")["problems"]
    assert "Move it away" in problem
    assert driver(state="verified")["obstacles"] == [problem]


def test_one_run_at_a_time(node, driver):
    (node.folder / "run").mkdir(0o700)
    with open(packages.LOCK, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "Another run of this collection" in driver()["msg"]
        assert driver(check=True)["changed"]


def test_only_root_can_install(driver, monkeypatch):
    def refuse(*_given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    assert "Run as root (become: true)" in driver()["msg"]


def test_other_users_cannot_hold_the_lock(node, driver):
    driver()
    assert stat.S_IMODE((node.folder / "run").stat().st_mode) == 0o700
    (node.folder / "run").chmod(0o755)
    assert "is not a directory that only root can access" in driver()["msg"]


def test_a_node_without_the_package_manager(node, driver):
    node.answers += [("dpkg-query", 127, "dpkg-query: No such file or directory")] * 2
    assert "The package manager's output has the reason" in driver()["msg"]


# --- Remove -----------------------------------------------------------------------------------------------------------


def test_removes_what_it_installed_and_releases_what_it_held(node, driver):
    node.install(LIBRARY, NEW)
    driver()
    preview = driver(check=True, state="absent")
    assert preview["changed"]
    assert preview["diff"]["after"] == "libcuda1 %s held\n" % NEW
    assert driver(state="absent")["changed"]
    assert node.state == {LIBRARY: ["ii ", NEW]}
    assert pinned(node) is None
    assert driver(state="absent")["changed"] is False


def test_packages_that_others_need_are_kept(node, driver):
    driver()
    node.install("game", "1")
    node.needs["game"] = [LIBRARY]
    result = driver(state="absent")
    assert result["kept"] == [LIBRARY]
    assert sorted(node.state) == ["game", LIBRARY]


def test_packages_installed_as_dependencies_may_be_removed(node, driver):
    node.needs.update({CUDA: [LIBRARY, "glx"], "glx": [CUDA]})
    node.offers["glx"] = [NEW]
    driver()
    assert recorded()["dependencies"] == ["glx"]
    result = driver(state="absent")
    assert (result["kept"], node.state) == ([], {})


@pytest.mark.parametrize("check", [True, False])
def test_a_node_that_lists_no_package_keeps_its_record(node, driver, check):
    driver()
    before = recorded()
    node.state.clear()
    assert "lists no package at all" in driver(check, state="absent")["msg"]
    assert recorded() == before
    assert pinned(node)


@pytest.mark.parametrize("check", [True, False])
def test_packages_that_somebody_else_holds_are_not_removed(node, driver, check):
    driver(hold=False)
    node.state[CUDA][0] = "hi "
    before = json.dumps([node.state, recorded(), pinned(node)])
    message = driver(check, state="absent")["msg"]
    assert message.startswith("somebody else holds nvidia-driver-cuda, which nvidia_driver installed")
    assert json.dumps([node.state, recorded(), pinned(node)]) == before
    node.state[CUDA][0] = "ii "
    assert driver(check, state="absent")["changed"]


def test_nothing_is_removed_without_a_record(node, driver):
    node.install(CUDA, NEW, "hi ")
    assert driver(state="absent")["changed"] is False
    assert node.state == {CUDA: ["hi ", NEW]}
