# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Branches and versions: transitional, unknown and unavailable ones."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    Data,
    plan,
    refusal,
    table,
)


@pytest.mark.parametrize("branch", ["５８０", "58²", "-580", ""])
def test_a_branch_is_a_number(branch: str) -> None:
    with pytest.raises(Refusal, match="nvidia_driver_branch is"):
        plan("debian_12", branch=branch)


@pytest.mark.parametrize(
    "system, requested, installs",
    [("ubuntu_20.04", "515", "535"), ("ubuntu_22.04", "515", "580"), ("ubuntu_24.04", "515", "580"),
     ("ubuntu_26.04", "535", "580")],
)  # fmt: skip
def test_a_transitional_branch_names_the_installed_branch(system: str, requested: str, installs: str) -> None:
    found = plan(system, source="distribution", branch=requested)
    assert found["branch"] == installs
    assert found["notices"] == [
        "Branch %s is transitional on %s: its packages install branch %s."
        % (requested, table(system)["title"], installs)
    ]


def test_an_ordinary_branch_has_no_notice() -> None:
    assert plan("ubuntu_22.04", source="distribution")["notices"] == []
    assert plan("ubuntu_22.04", branch="515", source="cuda_repository")["branch"] == "515"


@pytest.mark.parametrize(
    "system, settings, words",
    [
        ("debian_12", {"source": "distribution", "branch": "580"}, ["no branch 580, but 535", "cuda_repository"]),
        ("debian_13", {"source": "distribution", "branch": "515"}, ["no branch 515, but 550"]),
        ("ubuntu_20.04", {"branch": "580"}, ["no branch 580, but 535, 550, 565, 570"]),
        ("ubuntu_26.04", {"source": "distribution", "branch": "515"}, ["no branch 515, but 580, 595, 615"]),
        ("ubuntu_26.04", {"source": "distribution", "branch": "610"}, ["no server series", "nvidia_driver_server"]),
        ("ubuntu_24.04", {"branch": "550", "version": "550.90.07"}, ["is not of branch 580", "to cuda_repository"]),
        ("ubuntu_24.04", {"branch": "580", "version": "595.58.03"}, ["set nvidia_driver_branch to auto"]),
        ("ubuntu_26.04", {"branch": "610"}, ["to false, or nvidia_driver_branch to another"]),
        ("ubuntu_20.04", {"source": "distribution", "branch": "550", "server": False}, ["only the server series"]),
        ("el_9", {"source": "distribution"}, ["no known driver of its own; set nvidia_driver_source to cuda_repository"]),
        ("debian_12", {"branch": "470"}, ["'470'", "from 515 on"]),
        ("debian_12", {"branch": "latest"}, ["'latest'"]),
        ("debian_12", {"version": "\uff15\uff18\uff10.126.20"}, ["it must be a driver version such as"]),
        ("debian_12", {"version": "580.126.20-1"}, ["'580.126.20-1'", "without the package's revision"]),
        ("debian_12", {"version": "570.133.20", "branch": "580"}, ["570.133.20 is not of branch 580"]),
        ("ubuntu_24.04", {"source": "distribution", "branch": "615", "server": False, "kernel_modules": "proprietary"},
         ["only the open kernel module"]),
        ("debian_12", {"branch": "620", "kernel_modules": "proprietary"}, ["only the open kernel module", "auto"]),
    ],
)  # fmt: skip
def test_unavailable_combinations_are_refused(system: str, settings: Data, words: t.List[str]) -> None:
    message = refusal(system, **settings)
    assert [word for word in words if word not in message] == []
