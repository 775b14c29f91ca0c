#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_load
short_description: Internal to the collection's roles, load the kernel module of the installed NVIDIA driver
version_added: 0.9.0
description:
  - Internal to the collection's roles. Loads the kernel module C(nvidia) if no version of it is loaded, and reports whether
    the node must be rebooted to run the installed driver.
  - Does not load it while C(nouveau) or C(nova_core) is loaded, because a module that is in use cannot be replaced.
  - A reboot helps unless the kernel rejects the module's signature, or the role's record shows that the node was already
    rebooted for the same driver. Once the driver runs, the reboot is removed from the record.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Assumes that a module which is not loaded can be loaded.
  diff_mode:
    support: none
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  version:
    description:
      - The installed version of the driver.
    type: str
    required: true
  load:
    description:
      - Whether to load the kernel module.
    type: bool
    default: true
  options:
    description:
      - The options of the kernel module in C(/etc/modprobe.d). If the loaded module runs with others, the node must be rebooted.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Load the kernel module
  gpufleet.node.nvidia_driver_load:
    version: 580.126.20
"""

RETURN = r"""
loaded_version:
  description: Version of the loaded module. V(null) if none is loaded.
  returned: success
  type: str
  sample: 580.126.20
running:
  description: Whether the loaded version is the installed one.
  returned: success
  type: bool
reboot_required:
  description: Whether the node must be rebooted to run the installed driver.
  returned: success
  type: bool
reboot_helps:
  description: Whether a reboot can be expected to load the installed driver.
  returned: success
  type: bool
reason:
  description: The state of the driver, and what to do about it.
  returned: success
  type: str
  sample: driver 580.126.20 is installed, but kernel module 570.133.20 is loaded. The node must be rebooted
boot_id:
  description: Id of the current boot. V(null) in check mode if the module would be loaded.
  returned: success
  type: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.load import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
