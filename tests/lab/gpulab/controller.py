# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of ansible-playbook in tests, which run it hundreds of times."""

from __future__ import annotations

import os
import typing as t

from .places import CACHE, HERE


def environment(*paths: os.PathLike[str]) -> t.Dict[str, str]:
    """Variables that save work which all runs have in common. ``paths``: more directories of Python modules."""
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (*paths, HERE / "images" / "bytecode"))),  # modules are compiled once
        "GPUFLEET_BYTECODE": str(CACHE / "bytecode"),
        "ANSIBLE_CALLBACKS_ENABLED": "module_archives",  # and packed once
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
        "GPUFLEET_ARCHIVES": str(CACHE / "archives"),
        "ANSIBLE_CONFIG": str(HERE / "ansible.cfg"),
    }
