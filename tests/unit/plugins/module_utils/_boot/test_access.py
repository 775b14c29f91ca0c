# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to MIG for a group, on simulated kernel files."""

from __future__ import annotations

import grp
import os
import stat

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult, missing
from ansible_collections.gpufleet.node.plugins.module_utils._boot import access

GROUP = grp.getgrgid(os.getgid()).gr_name


@pytest.fixture(name="root")
def fixture_root(tmp_path):
    for directory in (access.DEVICES, access.CONTROL, os.path.dirname(access.MINORS)):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
    (tmp_path / access.MINORS).write_text("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n")
    for minor, name, mode in ((1, "config", 0o400), (2, "monitor", 0o444)):
        (tmp_path / access.DEVICES / ("nvidia-cap%d" % minor)).touch(mode)
        (tmp_path / access.CONTROL / name).write_text("DeviceFileMinor: %d\nDeviceFileModify: 1\n" % minor)
    return tmp_path


def mode(root, minor):
    return stat.S_IMODE(os.stat(root / access.DEVICES / ("nvidia-cap%d" % minor)).st_mode)


def test_the_group_owns_the_devices_and_the_driver_does_not_modify_them(root):
    granted = access.grant(GROUP, ["config", "monitor"], str(root))
    assert [os.path.basename(device) for device in granted.devices] == ["nvidia-cap1", "nvidia-cap2"]
    assert granted.changed
    assert (mode(root, 1), mode(root, 2)) == (0o440, 0o444)
    assert (root / access.CONTROL / "config").read_text() == "DeviceFileModify: 0\n"
    assert not access.grant(GROUP, ["config", "monitor"], str(root)).changed


def test_only_the_requested_access_is_granted(root):
    access.grant(GROUP, ["monitor"], str(root))
    assert mode(root, 1) == 0o400
    assert "DeviceFileModify: 1" in (root / access.CONTROL / "config").read_text()


def test_a_missing_device_is_created_with_nvidia_modprobe(root):
    device = root / access.DEVICES / "nvidia-cap1"
    device.unlink()
    commands = []

    def run(argv):
        commands.append(list(argv))
        device.touch(0o400)
        return CommandResult(0, "", "")

    access.grant(GROUP, ["config"], str(root), run)
    assert commands == [["nvidia-modprobe", "-f", str(root / access.CONTROL / "config")]]
    assert mode(root, 1) == 0o440


def test_without_nvidia_modprobe_a_missing_device_is_an_error(root):
    (root / access.DEVICES / "nvidia-cap1").unlink()

    def run(argv):
        raise missing(argv[0])

    with pytest.raises(access.AccessError, match="nvidia-cap1 is missing, and nvidia-modprobe did not create it"):
        access.grant(GROUP, ["config"], str(root), run)


def test_a_link_instead_of_the_device_is_not_followed(root, tmp_path):
    target = tmp_path / "target"
    target.touch(0o600)
    device = root / access.DEVICES / "nvidia-cap1"
    device.unlink()
    device.symlink_to(target)
    with pytest.raises(access.AccessError, match="is a symbolic link"):
        access.grant(GROUP, ["config"], str(root))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_missing_group_is_named(root):
    with pytest.raises(access.AccessError, match="The group gpufleet-none does not exist"):
        access.grant("gpufleet-none", ["config"], str(root))


def test_a_driver_that_is_not_loaded_is_named(tmp_path):
    with pytest.raises(access.AccessError, match="The driver is not loaded or lacks MIG"):
        access.grant(GROUP, ["config"], str(tmp_path))


def test_a_capability_that_the_driver_does_not_list_is_named(root):
    (root / access.MINORS).write_text("monitor 2\n")
    with pytest.raises(access.AccessError, match="does not list the capability config"):
        access.grant(GROUP, ["config"], str(root))
