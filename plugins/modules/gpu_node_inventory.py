#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_inventory
short_description: Internal to the collection's roles, select a host's roles and validate its variables
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Selects the roles of the run from the registry, O(ignore:gpu_node_roles) and the tags of the run, including those that
    the play or an import gives to all its tasks.
  - Validates the collection's variables against the roles' argument specifications and against rules that these cannot
    express. Finds misspelled variables and templates that fail. Compares the GPUs with C(gpu_node_boards).
  - Returns all problems instead of failing. Warns about variables that share a prefix with the collection's variables but
    are not part of it.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  registry:
    description:
      - The collection's roles in order of installation. The keys of each are C(role), C(tag), C(scope) (V(node) if it is
        not set), C(plan) if the role has this entry point and, if a variable decides whether V(all) includes it, C(enabled).
    type: list
    elements: dict
    required: true
  facts:
    description:
      - The registered result of M(gpufleet.node.nvidia_driver_facts).
    type: dict
    default: {}
  all_roles:
    description:
      - Whether to select from all roles instead of those of C(gpu_node_roles).
    type: bool
    default: false
  scope:
    description:
      - Select only roles with this scope.
    type: str
    choices: [all, node, cluster]
    default: all
  check:
    description:
      - Which checks of the roles are to run next. If the layout has problems, RV(roles) has C(nvidia_mig) only for V(verify).
    type: str
    choices: [preflight, verify]
    default: preflight
  record:
    description:
      - What the roles recorded on the node, by role (C(ansible_local.gpufleet)). Only for V(verify).
    type: raw
"""

EXAMPLES = r"""
- name: Validate the variables
  gpufleet.node.gpu_node_inventory:
    registry:
      - {role: gpu_node, tag: name}
      - {role: nvidia_mig, tag: mig}
"""

RETURN = r"""
problems:
  description: The problems, one sentence each.
  returned: always
  type: list
  elements: str
  sample: ["nvidia_mig_layuot is not a variable of this collection (did you mean nvidia_mig_layout?)"]
selected:
  description: The selected roles, in order of installation.
  returned: always
  type: list
  elements: str
  sample: [gpu_node, nvidia_driver, nvidia_mig]
roles:
  description:
    - The selected roles whose own checks can run on the host. Empty if it cannot be reached. Excludes roles whose variables
      have problems, and C(gpu_node).
  returned: always
  type: list
  elements: str
  sample: [nvidia_driver, nvidia_mig]
updates:
  description: Those of RV(roles) whose entry point C(plan) sets the reasons why their changes would interrupt work.
  returned: always
  type: list
  elements: str
  sample: [nvidia_driver]
interrupts:
  description: Whether one of RV(selected) may interrupt the work of a node.
  returned: always
  type: bool
unrequested:
  description:
    - Roles that V(all) in C(gpu_node_roles) includes, and that are not selected, because O(record) only lists
      C(nvidia_mig), and neither C(gpu_node_roles), nor a tag, nor a variable requests them.
  returned: always
  type: list
  elements: str
  sample: [nvidia_driver, nvidia_container_toolkit]
"""
