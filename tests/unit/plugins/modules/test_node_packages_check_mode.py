# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of the module node_packages, and what verification reports."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.modules import node_packages
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.node_packages_support import (
    CUDA,
    DRIVER,
    LIBRARY,
    NEW,
    OLD,
    TOOL,
    URL,
    Rpm,
    pinned,
    recorded,
)

from .module_support import run


def test_check_mode_with_known_package_sources(debian, driver):
    result = driver(check=True)
    assert (result["changed"], result["version"], result["would_install"]) == (True, "580.126.20", True)
    assert result["msg"] == "Would install nvidia-driver-cuda=%s, libcuda1=%s." % (NEW, NEW)
    assert "would install nvidia-driver-cuda=" + NEW in result["diff"]["after"]
    assert debian.state == {}
    assert pinned(debian) is None
    assert recorded() == {}
    assert debian.called("--simulate .*PreferencesParts=.*/preferences.d")
    assert not debian.called("update")


@pytest.mark.parametrize("added", [True, False])
def test_check_mode_without_package_lists(debian, driver, added):
    debian.offers = {CUDA: [OLD]} if added else {}
    result = driver(check=True, repository={"url": URL, "added": added})
    assert (result["changed"], result["version"], result["would_install"]) == (True, None, True)
    assert "Would install nvidia-driver-cuda of branch 580 from http://mirror.example/cuda" in result["msg"]
    assert "The exact version is not known" in result["msg"]
    result = driver(check=True, version="580.126.20", repository={"url": URL, "added": added})
    assert result["version"] == "580.126.20"


def test_check_mode_reports_unavailable_packages(debian, driver):
    debian.answers.append(("--simulate", 100, "The following packages have unmet dependencies:"))
    assert "have conflicting dependencies" in driver(check=True)["msg"]


def test_verified_reads_only(debian, driver):
    result = driver(state="verified")
    assert result["changed"] is False
    assert "no package of the driver is installed" in result["problems"][0]
    assert result["problems"] == [each + ". Run site.yml --tags driver" for each in result["differences"]]
    driver()
    debian.calls.clear()
    assert driver(state="verified")["problems"] == []
    assert {line.split()[0] for line in debian.calls} == {"dpkg-query"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda debian: debian.state.pop(LIBRARY) and debian.state.pop(CUDA),
        lambda debian: debian.install(CUDA, NEW),  # not held
        lambda debian: debian.install(CUDA, NEW, "hF "),
        lambda debian: debian.install(CUDA, OLD, "hi "),
        lambda debian: (debian.folder / "preferences.d" / "gpufleet-nvidia-driver").unlink(),
        lambda _debian: record.remove("nvidia_driver"),
        lambda _debian: record.update("nvidia_driver", {"version": "580.105.08"}, {}),
    ],
)
def test_up_to_date_until_an_installation_would_repair_something(debian, driver, damage):
    assert not driver(state="verified")["up_to_date"]
    driver()
    assert driver(state="verified")["up_to_date"]
    damage(debian)
    assert not driver(state="verified")["up_to_date"]
    assert "failed" not in driver()
    assert driver(state="verified")["up_to_date"]


@pytest.mark.parametrize(
    "given",
    [
        {"upgrade": True},
        {"upgrade": True, "version": "580.126.20"},  # packages of kernels may be upgraded
        {"hold": False},
        {"branch": "590"},
        {"version": "580.105.08"},
        {"packages": [CUDA, TOOL]},
        {"minimum_version": "580.200"},  # refused, although all packages are installed
    ],
)
def test_not_up_to_date_with_other_values(driver, given):
    driver()
    assert not driver(state="verified", **given)["up_to_date"]


@pytest.mark.parametrize("manager, found", [("apt", True), ("dnf", False)])
def test_sources_with_another_key_are_obstacles(debian, driver, manager, found):
    folder = debian.folder / "sources.list.d"
    folder.mkdir()
    own, other = folder / "gpufleet.sources", folder / "cuda.list"
    own.write_text("deb [signed-by=/old.asc] %s /\n" % URL)
    if manager == "dnf":
        debian.__class__ = Rpm
    given = {"state": "verified", "manager": manager}
    repository = {"url": URL, "file": str(own), "key": "/own.asc"}
    result = driver(**given, repository=repository)
    assert (result["changed"], result["obstacles"]) == (False, [])
    other.write_text("deb [signed-by=/other.gpg] %s /\n" % URL)
    problems = driver(**given, repository=repository)["obstacles"]
    assert [text.startswith("%s has the repository %s with another key" % (other, URL)) for text in problems] == (
        [True] * found
    )
    assert not debian.called("update|install")


@pytest.mark.parametrize("url, usable", [("nourl", False), ("ftp://x", False), ("file:///srv/cuda", True)])
def test_sources_that_are_no_usable_url_are_obstacles(driver, url, usable):
    problems = driver(state="verified", repository={"url": url})["obstacles"]
    words = "nvidia_driver_repository_url gives the package source %s: set it to" % url
    assert [text[: len(words)] for text in problems] == ([] if usable else [words])


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
def test_foreign_holds_are_obstacles(debian, driver, wanted, blocked):
    driver(version="580.105.08", hold=False)
    assert driver(state="verified", **wanted)["obstacles"] == []
    debian.state[LIBRARY][0] = "hi "
    debian.calls.clear()
    problems = driver(state="verified", **wanted)["obstacles"]
    words = "somebody else holds libcuda1 %s, which blocks driver %s. Release them (apt-mark unhold), or set" % (
        OLD,
        blocked,
    )
    assert [text[: len(words)] for text in problems] == ([words] if blocked else [])
    assert not debian.called("update|install")


def test_foreign_locks_are_obstacles(debian):
    debian.__class__ = Rpm
    lock = "%s-3:580.105.08-1.*" % CUDA
    (debian.folder / "versionlock.list").write_text(lock + "\n")
    given = {**DRIVER, "state": "verified", "manager": "dnf"}
    assert run(node_packages.main, **given)["obstacles"] == []
    (problem,) = run(node_packages.main, **{**given, "upgrade": True})["obstacles"]
    assert problem.startswith("somebody else locks %s, which blocks driver 580.126.20. Release" % lock)
    record.update("nvidia_driver", {"held": [lock]}, {})
    assert run(node_packages.main, **{**given, "upgrade": True})["obstacles"] == []
