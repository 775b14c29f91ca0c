# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Grant a group access to MIG configuration and monitoring through the driver's capability devices.

The driver's tools reset owner and mode of these devices whenever they access one, unless this
is disabled in the kernel module. Neither setting survives a reboot or a reload of the module.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
import typing as t

from .._backend.command import Runner
from .._backend.command import run as run_command
from .._mig.backend import BackendError

MINORS = "proc/driver/nvidia-caps/mig-minors"
CONTROL = "proc/driver/nvidia/capabilities/mig"
DEVICES = "dev/nvidia-caps"
_MODE = 0o440


class AccessError(Exception):
    """Access could not be granted. The message states the reason and the remedy."""


class Granted(t.NamedTuple):
    """The devices that the group can access, and whether access to any of them is new."""

    devices: t.Tuple[str, ...]
    changed: bool


def grant(group: str, capabilities: t.Sequence[str], root: str = "/", run: Runner = run_command) -> Granted:
    """Grant the group access to the capabilities ``config`` or ``monitor``. Raises AccessError."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise AccessError("The group %s does not exist on this node. Create it, or use another one" % group) from error
    minors = _minors(os.path.join(root, MINORS))
    devices = []
    changed = False
    for capability in capabilities:
        if capability not in minors:
            raise AccessError("%s does not list the capability %s" % (os.path.join(root, MINORS), capability))
        device = os.path.join(root, DEVICES, "nvidia-cap%d" % minors[capability])
        control = os.path.join(root, CONTROL, capability)
        if not os.path.exists(device):
            _make(device, control, run)
        changed = _open_to(device, gid) or changed
        _keep(control)
        devices.append(device)
    return Granted(tuple(devices), changed)


def _make(device: str, control: str, run: Runner) -> None:
    with contextlib.suppress(BackendError):
        run(["nvidia-modprobe", "-f", control])
    if not os.path.exists(device):
        raise AccessError("%s is missing, and nvidia-modprobe did not create it" % device)


def _keep(control: str) -> None:
    """Prevent the driver from resetting owner and mode of the device."""
    try:
        with open(control, "w", encoding="ascii") as handle:
            handle.write("DeviceFileModify: 0\n")
    except OSError as error:
        raise AccessError("%s cannot be written: %s. The driver would revoke the access" % (control, error)) from error


def _open_to(device: str, gid: int) -> bool:
    """Grant access through a descriptor, so that the checked file is the changed one and no link is followed.

    Some drivers make the monitor device readable for all users; this is preserved.
    """
    try:
        descriptor = os.open(device, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISLNK(found.st_mode):
                raise AccessError("%s is a symbolic link, not a device" % device)
            mode = stat.S_IMODE(found.st_mode) | _MODE
            if found.st_gid == gid and stat.S_IMODE(found.st_mode) == mode:
                return False
            itself = "/proc/self/fd/%d" % descriptor
            os.chown(itself, -1, gid)
            os.chmod(itself, mode)
            return True
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AccessError("Access to %s cannot be granted: %s" % (device, error)) from error


def _minors(path: str) -> t.Dict[str, int]:
    try:
        with open(path, encoding="ascii") as handle:
            rows = [line.split() for line in handle]
    except OSError as error:
        raise AccessError("%s cannot be read: %s. The driver is not loaded or lacks MIG" % (path, error)) from error
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
