# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot files: each of create, change and remove in check mode, for real, and both again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._boot import settings
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import boot

LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
PACKAGE = "/usr/local/lib/gpufleet/gpufleet_mig"


def params(**given: t.Any) -> t.Dict[str, t.Any]:
    spec = boot.ARGUMENTS["argument_spec"]
    return {**{name: option.get("default") for name, option in spec.items()}, "layout": LAYOUT, **given}


def below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def test_create_change_and_remove(tmp_path: Path) -> None:
    os.umask(0o022)
    all_of = [settings.DEFAULT_PATH, boot.COMMAND, boot.UNIT, PACKAGE]
    for files, changing in (
        (boot.desired_files(params(), "/usr/bin/python3"), all_of),
        (boot.desired_files(params(time_limit=60), "/usr/bin/python3"), [settings.DEFAULT_PATH, boot.UNIT]),
        ({}, all_of),
    ):
        before = {path: below(tmp_path, path).exists() for path in all_of}
        checked, foretold = boot.apply(files, str(tmp_path), check_mode=True)
        assert {path: below(tmp_path, path).exists() for path in all_of} == before
        assert (checked, foretold) == boot.apply(files, str(tmp_path), check_mode=False)
        assert checked == changing and [one["after_header"] for one in foretold] == changing
        of_engine = [one["before"] + one["after"] for one in foretold if one["after_header"] == PACKAGE]
        assert [text.count("\n") for text in of_engine] == [1] * len(of_engine)
        for check_mode in (True, False):
            assert boot.apply(files, str(tmp_path), check_mode) == ([], [])
        for path, file in files.items():
            found = below(tmp_path, path)
            assert (found.read_bytes(), found.stat().st_mode & 0o777) == (file.content, file.mode)
    assert not below(tmp_path, "/etc/gpufleet").exists() and not below(tmp_path, "/usr/local/lib/gpufleet").exists()


@pytest.mark.parametrize("damage", ["content", "mode", "link"])
def test_a_modified_file_is_replaced(tmp_path: Path, damage: str) -> None:
    files = boot.desired_files(params(), "/usr/bin/python3")
    boot.apply(files, str(tmp_path), check_mode=False)
    command = below(tmp_path, boot.COMMAND)
    if damage == "content":
        command.write_text("#!/bin/false\n")
    elif damage == "mode":
        command.chmod(0o700)
    else:
        command.rename(tmp_path / "elsewhere")
        command.symlink_to(tmp_path / "elsewhere")
    assert boot.apply(files, str(tmp_path), check_mode=False)[0] == [boot.COMMAND]
    assert not command.is_symlink() and command.read_bytes() == files[boot.COMMAND].content


def test_the_settings_are_those_that_the_command_reads(tmp_path: Path) -> None:
    gpus = {"0": "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"}
    given = params(gpus=gpus, reset=True, access_group="mig", access_capabilities=["monitor"], driver_wait=5)
    boot.apply(boot.desired_files(given, "/usr/bin/python3"), str(tmp_path), check_mode=False)
    read = settings.read(str(below(tmp_path, settings.DEFAULT_PATH)))
    assert (read.reset, read.driver_wait, read.access_group) == (True, 5, "mig")
    assert read.gpus == {0: gpus["0"]}
    assert json.loads(below(tmp_path, settings.DEFAULT_PATH).read_text())["layout"] == LAYOUT


@pytest.mark.parametrize(
    "given, problem",
    [
        ({"layout": [{"devices": "all"}]}, "mig_enabled"),
        ({"time_limit": 0}, "time_limit"),
        ({"lock_wait": -1}, "lock_wait"),
    ],
)
def test_settings_that_the_boot_command_refuses_are_refused(given: t.Any, problem: str) -> None:
    with pytest.raises((LayoutError, ValueError), match=problem):
        boot.desired_files(params(**given), "/usr/bin/python3")


def test_the_unit_is_ordered_and_ends_after_the_command() -> None:
    text = boot.unit_text(
        params(after=["dkms.service"], before=["kubelet.service", "dcgm*", "kubelet.service"], time_limit=60)
    )
    assert "\nAfter=dkms.service\nBefore=kubelet.service\n" in text
    assert "\nTimeoutStartSec=90\n" in text


def test_the_unit_has_few_privileges(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd")
    unit = tmp_path / os.path.basename(boot.UNIT)
    unit.write_text(boot.unit_text(params()))
    limit = "--threshold=50"  # in tenths, of 100 for a unit without restrictions
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", limit, str(unit)], capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
