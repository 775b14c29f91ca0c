#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_differences
short_description: Internal to the collection's roles, describe how a node differs from its MIG layout
version_added: 0.9.0
description:
  - Internal to the role P(gpufleet.node.nvidia_mig#role). Describes in sentences what other tasks have read from the node.
  - Runs on the controller, without a connection.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  compared:
    description:
      - The result of M(gpufleet.node.nvidia_mig) in check mode, also of a failure.
    type: dict
    required: true
  skip_busy:
    description:
      - Whether GPUs that processes block are RV(deferred) instead of a problem.
    type: bool
    required: true
  last_change:
    description:
      - The content of the node's file with time and author of the role's last change of the GPUs. Empty if it is missing.
    type: str
    default: ""
  own_change:
    description:
      - The SHA-1 of that file if this run has written it.
    type: str
    default: ""
  unit:
    description:
      - The boot unit that must be enabled. Empty if the layout need not be restored at boot.
    type: str
    default: ""
  unit_status:
    description:
      - The properties of the unit, as C(ansible.builtin.systemd_service) returns them.
    type: dict
    default: {}
  restore:
    description:
      - The result of C(ansible.builtin.command) that has run the boot restore with C(--check).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Describe the differences
  gpufleet.node.nvidia_mig_differences:
    compared: "{{ compared }}"
    skip_busy: false
  register: differences
"""

RETURN = r"""
problems:
  description: The differences between node and variables, one sentence each. One about GPUs has several lines.
  returned: success
  type: list
  elements: str
deferred:
  description: Why GPUs that processes block have not been changed yet. Empty unless O(skip_busy).
  returned: success
  type: list
  elements: str
"""
