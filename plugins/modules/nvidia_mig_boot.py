#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_boot
short_description: Internal to the collection's roles, install the boot restore of the MIG layout
version_added: 0.9.0
description:
  - Internal to the collection's roles. The role P(gpufleet.node.nvidia_mig#role) uses it.
  - Installs the engine of M(gpufleet.node.nvidia_mig) as plain Python files, the settings, the command
    C(gpufleet-mig-restore) and its systemd unit. It neither enables nor starts the unit.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - For the engine, the diff has only the number of files.
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  state:
    description:
      - Whether the files should exist. V(absent) does not disable the unit.
    type: str
    choices: [present, absent]
    default: present
  layout:
    description:
      - The layout to restore, as in M(gpufleet.node.nvidia_mig). Required with O(state=present).
    type: list
    elements: dict
  gpus:
    description:
      - UUIDs of GPUs by index. Indices change if a GPU is missing at boot, UUIDs do not.
    type: dict
    default: {}
  reset:
    description:
      - See the option O(gpufleet.node.nvidia_mig#module:reset).
    type: bool
    default: false
  disturb:
    description:
      - See the option O(gpufleet.node.nvidia_mig#module:disturb).
    type: bool
    default: true
  backend:
    description:
      - See the option O(gpufleet.node.nvidia_mig#module:backend).
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
  driver_wait:
    description:
      - Seconds to wait for the driver at boot.
    type: int
    default: 60
  lock_path:
    description:
      - See the option O(gpufleet.node.nvidia_mig#module:lock_path).
    type: path
    default: /run/gpufleet/nvidia-mig.lock
  lock_wait:
    description:
      - See the option O(gpufleet.node.nvidia_mig#module:lock_wait).
    type: int
    default: 120
  time_limit:
    description:
      - Seconds after which the command exits, even if it is not finished.
    type: int
    default: 300
  access_group:
    description:
      - Group that is granted access to MIG capabilities. Empty for none.
    type: str
    default: ""
  access_capabilities:
    description:
      - The capabilities granted to O(access_group).
    type: list
    elements: str
    default: []
  after:
    description:
      - Units that start before the command runs.
    type: list
    elements: str
    default: []
  before:
    description:
      - Units that start after the command has exited. Patterns are ignored.
    type: list
    elements: str
    default: []
seealso:
  - module: gpufleet.node.nvidia_mig
"""

EXAMPLES = r"""
- name: Restore seven instances on each GPU at boot
  gpufleet.node.nvidia_mig_boot:
    layout:
      - devices: all
        mig_enabled: true
        mig_devices: {1g.10gb: 7}
    before: [kubelet.service]

- name: Remove the files
  gpufleet.node.nvidia_mig_boot:
    state: absent
"""

RETURN = r"""
files:
  description: The paths of the files that changed, or in check mode would change.
  returned: always
  type: list
  elements: str
  sample: [/etc/gpufleet/mig-layout.json]
python:
  description: The Python interpreter that ran the module and that the command uses.
  returned: always
  type: str
  sample: /usr/bin/python3
diff:
  description: The files before and after.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.boot import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
