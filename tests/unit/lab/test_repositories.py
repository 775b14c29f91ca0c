# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's repositories offer only packages that are in the snapshots of the real repositories."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from gpulab import packages, rpm, snapshot

KNOWN = packages.definitions()
REPOSITORIES: t.Dict[str, t.Dict[str, t.Any]] = {**KNOWN["repositories"], **KNOWN["rpm_repositories"]}


def names(path: str, branch: str) -> t.Set[str]:
    return {each.name for each in packages.driver_packages(REPOSITORIES[path]) if each.driver.startswith(branch + ".")}


@pytest.mark.parametrize(
    "path, branch, offered, absent",
    [
        ("cuda/debian12/x86_64", "570", "nvidia-fabricmanager-570", "nvidia-fabricmanager"),
        ("cuda/debian12/x86_64", "580", "nvidia-fabricmanager", "nvidia-fabricmanager-580"),
        ("cuda/ubuntu2404/x86_64", "580", "nvidia-utils-580", "nvidia-utils"),
        ("cuda/ubuntu2404/x86_64", "595", "libnvidia-compute", "nvidia-utils"),
        ("cuda/rhel9/x86_64", "580", "nvidia-fabricmanager", "nvidia-fabric-manager"),
        ("ubuntu/noble", "580", "nvidia-fabricmanager-580", "nvidia-fabricmanager"),
    ],
)
def test_package_names_match_the_real_repository(path: str, branch: str, offered: str, absent: str) -> None:
    assert offered in names(path, branch)
    assert absent not in names(path, branch)


def test_an_unknown_branch_is_not_offered() -> None:
    assert not names("cuda/debian13/x86_64", "580")
    assert not names("cuda/ubuntu2204/x86_64", "570")
    assert names("cuda/ubuntu2404/x86_64", "570")


@pytest.mark.parametrize("path", REPOSITORIES)
def test_a_package_that_the_snapshot_lacks_is_not_built(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = snapshot.has

    def without_modules(system: str, source: str, branch: str, name: str) -> bool:
        return "-dkms" not in name and real(system, source, branch, name)

    before = {each.name for each in packages.driver_packages(REPOSITORIES[path])}
    monkeypatch.setattr(snapshot, "has", without_modules)
    after = {each.name for each in packages.driver_packages(REPOSITORIES[path])}
    assert before - after == {name for name in before if "-dkms" in name} != set()


def test_streams_of_the_rpm_repository() -> None:
    """By default only the newest branch is visible, with the open modules that DKMS builds."""
    *documents, default = yaml.safe_load_all(rpm.streams(packages.driver_packages(REPOSITORIES["cuda/rhel9/x86_64"])))
    found = {each["data"]["stream"]: each["data"]["artifacts"]["rpms"] for each in documents}
    assert default["data"]["stream"] == "open-dkms"
    assert {"latest", "latest-dkms", "open-dkms", "580", "580-dkms", "580-open"} <= set(found)
    for name, modules in (
        ("open-dkms", ["kmod-nvidia-open-dkms-3:595.58.03-1.el9.noarch"]),
        ("595-dkms", ["kmod-nvidia-latest-dkms-3:595.58.03-1.el9.noarch"]),
        ("595", ["kmod-nvidia-595.58.03-5.14.0-%s-3:595.58.03-3.el9.x86_64" % kernel for kernel in (503, 570)]),
    ):
        assert [each for each in found[name] if each.startswith("kmod-nvidia-")] == modules
        assert "nvidia-driver-cuda-3:595.58.03-1.el9.x86_64" in found[name]
        assert not [each for each in found[name] if "fabricmanager" in each]


def test_versions_match_the_real_repository() -> None:
    for what in REPOSITORIES.values():
        wanted = set(what.get("drivers", KNOWN["drivers"]))
        assert wanted <= set(snapshot.load()["cuda"]["releases"])
