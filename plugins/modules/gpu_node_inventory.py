#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_inventory
short_description: Internal to the collection's roles, validate a host's variables
version_added: 0.1.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Validates the collection's variables against the roles' argument specifications and against rules that these cannot
    express. Finds misspelled variables and templates that fail. Returns all problems instead of failing.
  - Warns about variables that share a prefix with the collection's variables but are not part of it.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  roles:
    description:
      - The roles whose required variables are checked for the host.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Validate the variables
  gpufleet.node.gpu_node_inventory:
    roles: [gpu_node, nvidia_mig]
"""

RETURN = r"""
problems:
  description: The problems, one sentence each.
  returned: always
  type: list
  elements: str
  sample: ["nvidia_mig_layuot is not a variable of this collection: did you mean nvidia_mig_layout?"]
misspelled:
  description: The subset of RV(problems) that concerns misspelled names.
  returned: always
  type: list
  elements: str
  sample: []
"""
