# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_packages with dnf."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import (
    dnf,
)
from ansible_collections.gpufleet.node.plugins.modules import node_packages
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.node_packages_support import (
    CUDA,
    DRIVER,
    URL,
    Debian,
    Rpm,
)

from .module_support import run


def test_lines_of_versionlock_are_a_change(debian):
    class Rpm(Debian):
        def __call__(self, argv, data=None, **_more):
            return 0, "%s\t0:580.126.20-1\tx86_64\n" % CUDA if argv[0] == "rpm" else "", ""

    debian.__class__ = Rpm
    (debian.folder / "versionlock.conf").touch()
    for hold in (True, False):
        results = [
            run(node_packages.main, check, manager="dnf", **{**DRIVER, "hold": hold})
            for check in (True, False, True, False)
        ]
        assert [result["changed"] for result in results] == [True, True, False, False]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "lock, table, words",
    [
        ("kernel-devel-0:5.14.0-427.el9.*", "", "somebody else locks kernel-devel-0:5.14.0-427.el9.*, which blocks"),
        ("", "     replacing  game.x86_64 1-1\n", "would remove game, which this role does not manage"),
    ],
)
def test_dnf_changes_no_packages_of_others(debian, lock, table, words, check):
    debian.__class__ = Rpm
    debian.table += table
    (debian.folder / "versionlock.list").write_text(lock + "\n")
    assert words in run(node_packages.main, check, manager="dnf", **{**DRIVER, "upgrade": True})["msg"]
    assert not debian.called("--assumeyes (?!.*--assumeno).* install ")


def test_a_stream_that_is_not_enabled_is_a_change(debian, monkeypatch):
    class Modular(Rpm):
        def __call__(self, argv, data=None, **more):
            if "module" in argv and "enable" in argv:
                (debian.folder / "nvidia-driver.module").write_text("stream=580-open\n")
            return super().__call__(argv, data, **more)

    debian.__class__ = Modular
    monkeypatch.setattr(dnf, "MODULES", str(debian.folder))
    given = {"branch": "580", "hold": False, "stream": "nvidia-driver:580-open", "repository": {"added": True}}
    results = [run(node_packages.main, check, manager="dnf", **{**DRIVER, **given}) for check in (True, False, True)]
    assert [result["changed"] for result in results] == [True, True, False]


def test_dnf_names_the_section_of_the_file(debian, driver):
    source = debian.folder / "gpufleet.repo"
    source.write_text("[gpufleet-cuda]\nbaseurl=%s\n" % URL)
    words = "Error: Failed to download metadata for repo 'gpufleet-cuda': repomd.xml GPG signature verification error"
    debian.answers.append(("update", 100, words))
    assert "was removed again" in driver(repository={"url": URL, "file": str(source), "added": True})["msg"]
    assert not source.exists()
