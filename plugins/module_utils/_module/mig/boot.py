# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig_boot: installs the files that restore the MIG layout of a node at boot, without Ansible."""

from __future__ import annotations

import json
import os
import stat
import sys
import typing as t

from ..._backend import lock, select
from ..._boot import settings
from ..._mig.errors import LayoutError
from ..common import files
from . import engine

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ENGINE = "/usr/local/lib/gpufleet"
COMMAND = "/usr/local/sbin/gpufleet-mig-restore"
UNIT = "/etc/systemd/system/gpufleet-mig-restore.service"

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "layout": {"type": "list", "elements": "dict"},
        "gpus": {"type": "dict", "default": {}},
        "reset": {"type": "bool", "default": False},
        "disturb": {"type": "bool", "default": True},
        "backend": {"type": "str", "default": select.AUTO, "choices": list(select.NAMES)},
        "driver_wait": {"type": "int", "default": 60},
        "lock_path": {"type": "path", "default": lock.DEFAULT_PATH},
        "lock_wait": {"type": "int", "default": 120},
        "time_limit": {"type": "int", "default": 300},
        "access_group": {"type": "str", "default": ""},
        "access_capabilities": {"type": "list", "elements": "str", "default": []},
        "after": {"type": "list", "elements": "str", "default": []},
        "before": {"type": "list", "elements": "str", "default": []},
    },
    "required_if": [("state", "present", ("layout",))],
}
# The options that the command reads at boot; the others are for systemd.
_SETTINGS = tuple(name for name in ARGUMENTS["argument_spec"] if name not in ("state", "after", "before"))

_HEADER = """\
# Written by gpufleet.node.nvidia_mig
"""
_COMMAND_TEXT = """\
#!%(python)s -I
%(header)s
# Restores the MIG layout in %(settings)s. Runs at boot, or manually as root.

import sys

sys.path.insert(0, "%(engine)s")

from gpufleet_mig._boot.restore import main

sys.exit(main())
"""
_UNIT_TEXT = """\
%(header)s
# MIG instances do not survive a reboot, and on Hopper and later GPUs MIG mode does not either.
# Ordering only: other units are neither started, stopped nor required, and start even if this one fails.

[Unit]
Description=Restore the MIG layout of the GPUs
After=%(after)s
Before=%(before)s

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%(command)s
# The command exits by itself after %(time_limit)d s; this applies if it cannot.
TimeoutStartSec=%(timeout)d

ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
ProtectHostname=yes
# For the driver's tools: loading modules, device nodes, resets, and other users' processes that hold a GPU.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_IPC_LOCK CAP_KILL CAP_MKNOD
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SYS_MODULE CAP_SYS_PTRACE CAP_SYS_RAWIO CAP_SYS_RESOURCE
SystemCallFilter=~@clock @cpu-emulation @debug @mount @obsolete @reboot @swap
SystemCallErrorNumber=EPERM
SystemCallArchitectures=native
NoNewPrivileges=yes
# nvidia-persistenced has a socket.
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
# Devices are not restricted: a list of them has none of a driver that loads later.

[Install]
WantedBy=multi-user.target
"""


class File(t.NamedTuple):
    """A file owned by root."""

    content: bytes
    mode: int


def run(module: AnsibleModule) -> None:
    params = module.params
    os.umask(0o022)  # all users may read the files
    try:
        desired = {} if params["state"] == "absent" else desired_files(params, sys.executable)
    except (ValueError, LayoutError) as error:
        module.fail_json(msg="The settings of the boot restore are invalid: %s" % error, changed=False)
    try:
        changes, diff = apply(desired, "/", module.check_mode)
    except OSError as error:
        text = "The files of the boot restore cannot be installed: %s%s"
        module.fail_json(msg=text % (error, files.remedy(error)), changed=False)
    module.exit_json(changed=bool(changes), files=changes, python=sys.executable, diff=diff)


def desired_files(params: t.Mapping[str, t.Any], python: str) -> t.Dict[str, File]:
    """The files by path. Raises ValueError or LayoutError for settings that the command would reject at boot."""
    data = {"version": settings.VERSION, **{name: params[name] for name in _SETTINGS}}
    text = json.dumps(data, indent=4, sort_keys=True) + "\n"
    settings.parse(json.loads(text))
    return {
        settings.DEFAULT_PATH: File(text.encode("utf-8"), 0o644),
        COMMAND: File(command_text(python).encode("utf-8"), 0o755),
        UNIT: File(unit_text(params).encode("utf-8"), 0o644),
    }


def command_text(python: str, engine_path: str = ENGINE, settings_path: str = settings.DEFAULT_PATH) -> str:
    return _COMMAND_TEXT % {"python": python, "header": _HEADER, "settings": settings_path, "engine": engine_path}


def unit_text(params: t.Mapping[str, t.Any]) -> str:
    return _UNIT_TEXT % {
        "header": _HEADER,
        "after": " ".join(params["after"]),
        # systemd orders units by name and does not expand patterns.
        "before": " ".join(dict.fromkeys(unit for unit in params["before"] if not set("*?[") & set(unit))),
        "command": COMMAND,
        "time_limit": params["time_limit"],
        "timeout": params["time_limit"] + 30,
    }


def apply(desired: t.Mapping[str, File], root: str, check_mode: bool) -> t.Tuple[t.List[str], t.List[t.Dict[str, str]]]:
    """Install these files and the engine, or without files remove all; returns the changed paths and their diffs."""
    changes, diff = [], []
    for path in (settings.DEFAULT_PATH, COMMAND, UNIT):
        file, found = desired.get(path), _read(_below(root, path))
        if file == found:
            continue
        changes.append(path)
        diff.append({"before_header": path, "after_header": path, "before": _shown(found), "after": _shown(file)})
        if not check_mode:
            _write(_below(root, path), file)
    package = os.path.join(ENGINE, engine.PACKAGE)
    target = _below(root, package)
    has, wants = engine.read(target), engine.sources() if desired else {}
    if has != wants or (not wants and os.path.lexists(target)):
        changes.append(package)
        before, after = engine.diff(has, wants)
        diff.append({"before_header": package, "after_header": package, "before": before, "after": after})
        if not check_mode:
            engine.replace(target, wants)
    directory = _below(root, os.path.dirname(settings.DEFAULT_PATH))
    if not desired and not check_mode and os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
    return changes, diff


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _read(path: str) -> t.Optional[File]:
    """The file at the path, None if it is missing. Anything but a regular file of this user has no valid mode."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return File(b"", -1)
    with open(path, "rb") as handle:
        content = handle.read()
    ours = (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
    return File(content, stat.S_IMODE(found.st_mode) if ours else -1)


def _write(path: str, file: t.Optional[File]) -> None:
    if file is None:
        os.remove(path)
    else:
        files.write(path, file.content, file.mode)


def _shown(file: t.Optional[File]) -> str:
    return "" if file is None else file.content.decode("utf-8", "replace")
