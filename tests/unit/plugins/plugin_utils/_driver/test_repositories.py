# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every package of a plan exists in its repository, according to dated snapshots."""

from __future__ import annotations

import itertools
import re
import typing as t
from functools import cache
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import plan as driver_plan
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import (
    KERNELS,
    SYSTEMS,
    Data,
    gpu,
    node,
    role_settings,
    table,
)

SNAPSHOT: Data = yaml.safe_load((Path(__file__).parent / "repositories.yml").read_text())

ARM = {"x86_64": "aarch64", "amd64": "arm64"}  # names of the architectures

# PCI device id, NVSwitches on the bus, nvidia_driver_fabric_manager
BOARDS = {
    "PCIe": ("20B5", 0, "auto"),
    "NVSwitch": ("2330", 4, "auto"),
    "NVLink 5": ("2901", 0, "present"),
    "Grace Hopper": ("2342", 0, "auto"),
    "Grace Blackwell": ("2941", 0, "auto"),
    "before Turing": ("1DB6", 0, "auto"),
}


def in_archive(system: str, architecture: str) -> t.Set[str]:
    archive = SNAPSHOT["archives"][system]
    found = {name for names in archive["packages"].values() for name in names}
    modules = archive.get("modules", {})
    if architecture != "x86_64":
        other = archive.get(architecture)
        if other is None:  # it was not read
            return set()
        without = {"-%s-" % branch for branch in other.get("without", ())}
        found = {name.replace("-amd64", "-arm64") for name in found if not any(each in name + "-" for each in without)}
        modules = other.get("modules", {})
    for kind, series in modules.items():
        found |= {"linux-modules-nvidia-%s-%s" % (kind, each) for each in series}
        found |= {"%s-%s" % (name, each) for name in ("linux-image", "linux-headers") for each in series}
    return found


def in_cuda_repository(system: str, branch: str, architecture: str) -> t.Set[str]:
    family = SNAPSHOT["cuda"]["systems"][system]["family"]
    found, absent = set(), set()
    for row in SNAPSHOT["cuda"]["names"][family]:
        if row["since"] <= int(branch) < row.get("before", 1000):
            found |= {name.format(b=branch) for name in row["names"]}
            absent |= {name.format(b=branch) for name in row.get("absent", ())}
    return (found - absent) | in_archive_headers(system, architecture)


@cache
def in_archive_headers(system: str, architecture: str) -> t.FrozenSet[str]:
    """Kernel headers always come from the distribution, even if the driver does not."""
    if system not in SNAPSHOT["archives"]:
        return frozenset()
    return frozenset(name for name in in_archive(system, architecture) if name.startswith("linux-headers-"))


def offered(system: str, source: str, branch: str, architecture: str = "x86_64") -> t.Set[str]:
    if source == "distribution":
        return in_archive(system, architecture)
    return in_cuda_repository(system, branch, architecture)


def kernels(system: str, architecture: str) -> t.List[str]:
    if architecture != "x86_64":
        return [re.sub("x86_64|amd64", lambda found: ARM[found.group()], each) for each in kernels(system, "x86_64")]
    own = KERNELS[system]
    if system.startswith("ubuntu"):
        series = {each for rows in SNAPSHOT["archives"][system].get("modules", {}).values() for each in rows}
        series |= {"oem-6.8", "generic-9.9"}  # a flavour and a series without prebuilt modules
        return [own, *("%s.0-1001-%s" % tuple(each.rsplit("-", 1)[::-1]) for each in sorted(series)), "6.18.44-own"]
    if system.startswith("debian"):
        return [own, own.replace("-cloud", "").replace("-amd64", "-cloud-amd64"), "6.18.44-own"]
    return [own, own + "+64k", own + "+rt", "6.18.44-own"]


CLAIMS = [
    (system, source, branch, architecture)
    for system in SYSTEMS
    for source, rows in table(system)["sources"].items()
    for architecture in rows["architectures"]
    for branch in {**rows, **rows.get(architecture, {})}["branches"]
]


def of_running_kernel(name: str, kernel: str) -> bool:
    return (
        name.endswith((kernel, kernel.split("+")[0])) and re.match("linux-(headers|modules)-|kernel-", name) is not None
    )


@pytest.mark.parametrize("system, source, branch, architecture", CLAIMS)
def test_every_package_of_a_plan_exists(system: str, source: str, branch: str, architecture: str) -> None:
    given = 0
    wrong: t.Dict[str, str] = {}
    own = kernels(system, architecture)
    nodes = [(board, own[0]) for board in BOARDS] + [("PCIe", kernel) for kernel in own[1:]]
    for (board, kernel), flavour, modules, build, server in itertools.product(
        nodes, ("headless", "desktop"), ("auto", "open", "proprietary", "none"), ("auto", "dkms", "prebuilt"),
        (True, False) if source == "distribution" else (True,),
    ):  # fmt: skip
        device, switches, fabric = BOARDS[board]
        settings = role_settings(
            source=source, branch=branch, flavour=flavour, kernel_modules=modules, module_build=build, server=server,
            fabric_manager=fabric,
        )  # fmt: skip
        try:
            found = driver_plan.plan_driver(
                table(system),
                node(system, gpu(device), switches=switches, kernel=kernel, architecture=architecture),
                settings,
            )
        except Refusal as error:
            assert re.search(r"set (it|nvidia_driver_)|remove|choose", str(error)), error
            continue
        given += 1
        names = {name for name in found["packages"] if not of_running_kernel(name, kernel)}
        for name in names - offered(system, source, found["branch"], architecture):
            wrong.setdefault(name, "%s, %s, %s, %s, %s, server %s" % (board, kernel, flavour, modules, build, server))
    assert given
    assert wrong == {}


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.parametrize("system", [each for each in SYSTEMS if "cuda_repository" in table(each)["sources"]])
def test_branches_of_the_cuda_repository_exist(system: str, architecture: str) -> None:
    seen = SNAPSHOT["cuda"]["systems"][system]
    assert table(system)["repository"]["key"] == seen["key"]
    source = table(system)["sources"]["cuda_repository"]
    source = {**source, **source.get(architecture, {})}
    seen = {"absent": [], **seen, **seen.get(architecture, {})}
    assert set(source["branches"]) <= set(seen["branches"])
    assert source["default_branch"] in seen["branches"]
    for branch in seen["absent"]:
        with pytest.raises(Refusal, match="no branch " + branch):
            driver_plan.plan_driver(
                table(system),
                node(system, architecture=architecture),
                role_settings(source="cuda_repository", branch=branch),
            )


def test_only_archives_that_were_read_are_known() -> None:
    for system, archive in SNAPSHOT["archives"].items():
        known = {*table(system)["sources"]["distribution"]["architectures"]}
        assert known == {"x86_64", *({"aarch64"} & set(archive))}


@pytest.mark.parametrize("system", [each for each in SYSTEMS if each.startswith("el")])
def test_what_the_vendor_signs_is_verified(system: str) -> None:
    repository = driver_plan.plan_driver(table(system), node(system), role_settings())["repository"]
    assert {"both": ["packages", "metadata"]}[repository["signed"]] == SNAPSHOT["cuda"]["systems"][system]["signed"]


@pytest.mark.parametrize("system", [each for each in SYSTEMS if "distribution" in table(each)["sources"]])
def test_branches_of_the_archive_match_the_table(system: str) -> None:
    packages = SNAPSHOT["archives"][system]["packages"]
    tool = "nvidia-smi" if system.startswith("debian") else "nvidia-utils-%s"
    branches = {name: re.split(r"[.]", version)[0] for version in sorted(packages) for name in packages[version]}
    for branch, row in table(system)["sources"]["distribution"]["branches"].items():
        installed = row.get("installs", branch)
        server = "-server" if row.get("server") == "only" and not row.get("installs") else ""
        assert branches[tool % installed + server if "%" in tool else tool] == installed
        if "%" in tool:  # the requested branch has packages with its name
            assert {tool % branch, tool % branch + "-server"} & set(branches)


def test_nodes_get_a_driver_by_default() -> None:
    for system in SYSTEMS:
        found = driver_plan.plan_driver(table(system), node(system), role_settings())
        assert found["source"] == ("distribution" if system.startswith("ubuntu") else "cuda_repository")
        assert set(found["packages"]) - {found["headers"]} <= offered(system, found["source"], found["branch"])
