#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_idle
short_description: Internal to the collection's roles, fail while processes use the GPUs of a node
version_added: 0.9.0
description:
  - Internal to the collection's roles, which use it before a change that would interrupt processes. Waits for them as long
    as the role's variable C(ROLE_busy_wait) allows, and shows which ones it waits for. Does nothing if there are no
    O(reasons), or if C(ROLE_interrupt) is set.
  - Lists the processes of all GPUs and MIG devices through the driver. If that is not possible, for example because the
    loaded kernel module has another version than the library, those that have C(/dev/nvidia-uvm) open, as every process
    that uses CUDA.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Does not wait. Warns instead of failing, because check mode drains no node, unless O(drains=false).
  diff_mode:
    support: none
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role, whose variables let the run wait, or continue nevertheless.
    type: str
    required: true
  reasons:
    description:
      - Why the role would interrupt processes.
    type: list
    elements: str
    required: true
  drains:
    description:
      - Whether the run may drain the node first. If not, check mode fails as well, unless C(ROLE_busy_wait) is set.
    type: bool
    default: true
  units:
    description:
      - Names or patterns of systemd units whose processes do not count. Set by the action plugin if the variable
        C(nvidia_mig_clients) is defined.
    type: list
    elements: str
    default:
      - nvsm*.service
      - dcgm.service
      - nvidia-dcgm.service
      - dcgm-exporter.service
      - nvidia-dcgm-exporter.service
"""

EXAMPLES = r"""
- name: Require idle GPUs
  gpufleet.node.node_idle:
    role: nvidia_driver
    reasons: [The node must be rebooted]
"""

RETURN = r"""
clients:
  description: The processes that use the GPUs.
  returned: unless skipped
  type: list
  elements: dict
  sample: [{pid: 4711, name: python3}]
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.idle import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
