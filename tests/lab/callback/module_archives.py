# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lets playbook runs share the archives of modules, which ansible-playbook otherwise builds anew in every run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: module_archives
type: aggregate
short_description: Keeps the archives of modules in the directory that GPUFLEET_ARCHIVES names
description: For tests, whose many short runs would spend a fifth of their time on it.
"""

import hashlib
import os
import typing as t
from pathlib import Path

import ansible
from ansible import constants
from ansible.plugins.callback import CallbackBase

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"


def sources() -> t.Iterator[bytes]:
    """What the archives are built from. Other collections and ansible-core change with the environment only."""
    yield repr((ansible.__file__, ansible.__version__)).encode()
    for folder in ("modules", "module_utils"):
        for path in sorted((PLUGINS / folder).rglob("*.py")):
            yield b"%s\0%s\0" % (str(path).encode(), path.read_bytes())


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "module_archives"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        digest = hashlib.sha256()
        for each in sources():
            digest.update(each)
        shared = Path(os.environ["GPUFLEET_ARCHIVES"], digest.hexdigest()[:16])
        shared.mkdir(parents=True, exist_ok=True)
        # Ansible's directory for archives, in the temporary directory of this run.
        Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache").symlink_to(shared)
