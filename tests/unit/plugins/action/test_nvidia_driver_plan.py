# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin nvidia_driver_plan: plan, problems and warnings from variables and facts."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.action.nvidia_driver_plan import ActionModule
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._driver.driver_support import Data, gpu, table

DEBIAN_12 = {
    "os_family": "Debian",
    "distribution": "Debian",
    "distribution_version": "12.13",
    "distribution_major_version": "12",
    "kernel": "6.1.0-56-amd64",
    "architecture": "x86_64",
    "effective_user_id": 0,
}
ROCKY_9 = {
    **DEBIAN_12,
    "os_family": "RedHat",
    "distribution": "Rocky",
    "distribution_version": "9.6",
    "distribution_major_version": "9",
    "kernel": "5.14.0-503.el9.x86_64",
}
NO_DKMS = "the kernel modules need dkms"


def nvidia(**other: t.Any) -> Data:
    """Facts of a node whose driver is not installed."""
    return {
        "driver": {
            "version": None, "source": None, "problem": "libnvidia-ml.so.1 is missing",
            "installation": {"method": "none", "evidence": []},
        },
        "kernel_module": {
            "flavour": "none", "loaded_version": None, "installed_version": None, "versions_match": None,
        },
        "fabric_manager": {"installed": False, "active": None, "enabled": None},
        "secure_boot": "disabled",
        "nvswitches": [],
        "gpus": [{**gpu(), "index": None, "problem": None}],
        **other,
    }  # fmt: skip


def run(
    system: Data,
    has_dkms: bool = True,
    facts: t.Optional[Data] = None,
    args: t.Optional[Data] = None,
    **variables: t.Any,
) -> Data:
    commands = []

    def execute(command: str) -> Data:
        commands.append(command)
        return {"rc": 0 if has_dkms else 1}

    templar = SimpleNamespace(template=lambda value: value)
    task = SimpleNamespace(
        args=args or {}, async_val=0, action="nvidia_driver_plan", _get_parent_attribute=lambda *_: None
    )
    action = ActionModule(task, SimpleNamespace(_shell=SimpleNamespace(tmpdir=None)), None, None, templar, None)
    action._low_level_execute_command = execute
    action._task.check_mode = False
    given = {"inventory_hostname": "gpu-1", "ansible_facts": {**system, "nvidia": facts or nvidia()}, **variables}
    return {"commands": commands, **action.run(task_vars=given)}


def test_a_plan_from_defaults() -> None:
    result = run(DEBIAN_12)
    assert (result["changed"], result["problems"], result["commands"]) == (False, [], [])
    assert result["plan"]["manager"] == "apt"
    assert result["plan"]["branch"] == table("debian_12")["sources"]["cuda_repository"]["default_branch"]
    assert result["plan"]["services"] == ["nvidia-persistenced.service"]
    assert result["warnings"] == []


def test_variables_have_the_types_of_the_argument_specification() -> None:
    result = run(DEBIAN_12, nvidia_driver_branch=570, nvidia_driver_persistenced="no", unrelated="{{ broken")
    assert (result["plan"]["branch"], result["plan"]["services"]) == ("570", [])


def test_a_foreign_driver_is_a_problem() -> None:
    driver = {**nvidia()["driver"], "installation": {"method": "vgpu_packages", "evidence": ["nvidia-linux-grid-580"]}}
    (problem,) = run(DEBIAN_12, facts=nvidia(driver=driver))["problems"]
    assert "(nvidia-linux-grid-580), and packages would replace only a part of it" in problem
    assert run(DEBIAN_12, facts=nvidia(driver=driver), args={"packages": False})["problems"] == []


def test_invalid_variables_are_problems() -> None:
    result = run(DEBIAN_12, nvidia_driver_flavour="tiny", nvidia_driver_persistenced="perhaps")
    assert result["plan"] == {}
    assert len(result["problems"]) == 2
    assert "nvidia_driver_flavour" in " ".join(result["problems"])


def test_unsupported_settings_are_problems() -> None:
    result = run(DEBIAN_12, nvidia_driver_branch="470")
    assert (result["plan"], result["problems"]) == (
        {},
        ["nvidia_driver_branch is '470'; set it to auto or to a number from 515 on"],
    )


def test_each_problem_of_the_plan_is_one_of_the_list() -> None:
    result = run(DEBIAN_12, nvidia_driver_branch="470", nvidia_driver_packages=["*"])
    assert [problem.split()[0] for problem in result["problems"]] == ["nvidia_driver_branch", "nvidia_driver_packages"]


def test_a_transitional_branch_is_a_warning() -> None:
    ubuntu = {
        **DEBIAN_12, "distribution": "Ubuntu", "distribution_version": "22.04", "distribution_major_version": "22",
        "kernel": "5.15.0-203-generic",
    }  # fmt: skip
    result = run(ubuntu, nvidia_driver_branch="515")
    assert result["warnings"] == result["plan"]["notices"] != []


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        (
            "Debian",
            "11",
            "no driver packages are known for Debian 11.13: the supported systems are Debian 12, Debian 13,",
        ),
        ("Fedora", "44", "no driver packages are known for Fedora 44.13"),
    ],
)
def test_an_unsupported_system_is_a_problem(name: str, version: str, message: str) -> None:
    facts = {"distribution": name, "distribution_major_version": version, "distribution_version": version + ".13"}
    assert message in run({**DEBIAN_12, **facts})["problems"][0]


def test_missing_root_privileges_are_a_problem() -> None:
    (problem,) = run({**DEBIAN_12, "effective_user_id": 1000})["problems"]
    assert problem == "Ansible does not run as root. Run as root (become: true)"


@pytest.mark.parametrize(
    ("variables", "has_dkms", "commands", "problems"),
    [
        ({}, True, 1, 0),
        ({}, False, 1, 1),
        ({"nvidia_driver_kernel_modules": "none"}, False, 0, 0),
        (
            {
                "nvidia_driver_kernel_modules": "proprietary",
                "nvidia_driver_module_build": "prebuilt",
                "nvidia_driver_version": "580.126.20",
            },
            False,
            0,
            0,
        ),
    ],
)
def test_enterprise_linux_needs_dkms(variables: Data, has_dkms: bool, commands: int, problems: int) -> None:
    result = run(ROCKY_9, has_dkms, **variables)
    assert len(result["commands"]) == commands
    assert [problem.startswith(NO_DKMS) for problem in result["problems"]] == [True] * problems


def test_the_running_driver_is_compared_even_if_nothing_can_be_installed() -> None:
    result = run(DEBIAN_12, nvidia_driver_branch="470")
    assert result["running_problems"] == [
        "no driver answers (libnvidia-ml.so.1 is missing). Install it with site.yml --tags driver"
    ]


def test_a_driver_of_another_tool_is_not_planned() -> None:
    facts = nvidia(nvswitches=[], driver={**nvidia()["driver"], "problem": None})
    unknown_kernel = {**DEBIAN_12, "kernel": "6.18.44-cloud"}
    assert "warnings" in run(unknown_kernel, facts=facts)
    result = run(unknown_kernel, facts=facts, args={"packages": False})
    assert "warnings" not in result
    assert (result["plan"], result["problems"], result["running_problems"]) == ({}, [], [])
