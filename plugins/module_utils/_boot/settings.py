# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Settings of the boot restore: the file that the role writes on the node."""

from __future__ import annotations

import json
import os
import stat
import threading
import typing as t

from .._backend import lock, select
from .._mig import layout
from .._mig.errors import LayoutError

DEFAULT_PATH = "/etc/gpufleet/mig-layout.json"
VERSION = 1
REMEDY = "Run the role gpufleet.node.nvidia_mig for this node"


class SettingsError(Exception):
    """The settings are missing or invalid. The message names the file and the remedy."""


class BootSettings(t.NamedTuple):
    """The validated content of the file. Durations are in seconds."""

    layout: layout.Layout
    reset: bool = False
    disturb: bool = True
    backend: str = select.AUTO
    driver_wait: float = 60
    lock_path: str = lock.DEFAULT_PATH
    lock_wait: float = 120
    time_limit: float = 300
    access_group: str = ""  # empty: access is not changed
    access_capabilities: t.Tuple[str, ...] = ()
    gpus: t.Mapping[int, str] = {}  # UUIDs of the layout's GPUs, by their index when the role ran


_KINDS: t.Dict[str, t.Tuple[type, ...]] = {
    "reset": (bool,),
    "disturb": (bool,),
    "backend": (str,),
    "driver_wait": (int, float),
    "lock_path": (str,),
    "lock_wait": (int, float),
    "time_limit": (int, float),
    "access_group": (str,),
    "access_capabilities": (list,),
    "gpus": (dict,),
}


def read(path: str) -> BootSettings:
    """Read the settings. Raises SettingsError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a FIFO would block
            raise ValueError("not a regular file")
        with open(path, encoding="utf-8") as handle:
            return parse(json.load(handle))
    except (OSError, ValueError, RecursionError, LayoutError) as error:
        raise SettingsError("%s: %s. %s" % (path, error, REMEDY)) from error


def parse(data: t.Any) -> BootSettings:
    """Validate the settings. Raises ValueError or LayoutError."""
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError("not a file of version %d" % VERSION)
    fields = {key: value for key, value in data.items() if key not in ("version", "layout")}
    for key, value in fields.items():
        if key not in _KINDS:
            raise ValueError("unknown key %s" % key)
        if not isinstance(value, _KINDS[key]) or (isinstance(value, bool) and bool not in _KINDS[key]):
            raise ValueError("%s is %r" % (key, value))
        # The limit of timers; also rejects NaN, which JSON allows.
        if isinstance(value, (int, float)) and not 0 <= value <= threading.TIMEOUT_MAX:
            raise ValueError("%s is %r" % (key, value))
    if not fields.get("time_limit", 1) > 0:
        raise ValueError("time_limit is %r, and must be more than 0" % fields["time_limit"])
    if fields.get("backend", select.AUTO) not in select.NAMES:
        raise ValueError("backend is %r, and must be one of %s" % (fields["backend"], ", ".join(select.NAMES)))
    if "access_capabilities" in fields:
        fields["access_capabilities"] = tuple(fields["access_capabilities"])
    if "gpus" in fields:
        fields["gpus"] = {int(index): str(uuid) for index, uuid in fields["gpus"].items()}
    return BootSettings(layout.parse(data.get("layout")), **fields)
