# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Add the nvidia runtime to the configuration of a container runtime through nvidia-ctk, and remove it.

nvidia-ctk neither reports whether it changes anything nor has an undo. It is therefore run on a copy of the owner's
configuration, read back by the runtime itself, and compared with the files on the node. The owner's configuration is saved in a directory
that only root can read, because it may contain passwords.
"""

from __future__ import annotations

import os
import re

from ..common import files
from ..common.commands import Run
from . import docker_config, nvidia_ctk
from .config_files import PRIVATE, Backup, ConfigChange, Content, File
from .container_runtimes import Runtime
from .nvidia_ctk import Owners, RuntimeOptions


def _owner_config(name: str, runtime: Runtime, backup: Backup) -> Content:
    """The configuration without what we added to it. What differs from what we wrote is the owner's."""
    current = files.read(runtime.config)
    if current is None or not backup.exists():
        return current
    before = backup.read("before")
    if backup.is_generated(current):
        return before
    if name == "docker":
        return docker_config.without_runtime(current, before)
    return without_import(current, before, runtime.drop_in)


def plan_present(name: str, runtime: Runtime, backup: Backup, options: RuntimeOptions, run: Run) -> ConfigChange:
    """Plan the changes that add the nvidia runtime. Changes nothing."""
    before = _owner_config(name, runtime, backup)
    drop_in = None
    if backup.exists():
        drop_in = backup.read("drop_in")
    elif runtime.drop_in:
        drop_in = files.read(runtime.drop_in)
    config, added = nvidia_ctk.generate(name, runtime, options, Owners(before, drop_in), run)
    current = files.read(runtime.config)
    if name == "docker" and config and current and docker_config.parse(config) == docker_config.parse(current):
        config = current  # its owner edited it: only order and spaces differ
    desired = [File(runtime.config, config, None)]
    if runtime.drop_in:
        desired.append(File(runtime.drop_in, added, PRIVATE))
    save = {"before": before, "after": config, "drop_in": drop_in}
    if backup.exists():
        save["previous"] = backup.read("after")
    return ConfigChange([file for file in desired if not file.is_current()], save)


def plan_absent(name: str, runtime: Runtime, backup: Backup) -> ConfigChange:
    """Plan the changes that remove the nvidia runtime. Changes nothing."""
    if not backup.exists():
        return ConfigChange([], {})
    desired = [File(runtime.config, _owner_config(name, runtime, backup), None)]
    if runtime.drop_in:
        desired.append(File(runtime.drop_in, backup.read("drop_in"), None))
    return ConfigChange([file for file in desired if not file.is_current()], {})


def without_import(config: bytes, before: Content, drop_in: str) -> bytes:
    """Remove the drop-in's directory from the imports, unless it was imported before."""
    item = re.escape('"%s/*.toml"' % os.path.dirname(drop_in)).encode()
    if re.search(item, before or b""):
        return config
    line = re.search(rb"^imports\s*=\s*\[[^\]\n]*" + item + rb"[^\]\n]*\][^\n]*\n?", config, re.MULTILINE)
    if not line:
        return config
    shorter = re.sub(rb",\s*" + item + rb"|" + item + rb"\s*,?\s*", b"", line.group(0), count=1)
    if re.search(rb"\[\s*\]", shorter):
        shorter = b""
    return config[: line.start()] + shorter + config[line.end() :]
