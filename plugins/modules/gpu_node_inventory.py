#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of the action plugin of this name, which does everything on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_inventory
short_description: Internal to the collection's roles, report everything that is wrong with a host's variables
version_added: 0.1.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Validates the variables of the collection by the roles' argument specifications, and by rules that these cannot express. Finds
    misspelled variables and templates that fail. It fails for none of these, but returns them all.
  - Warns of variables that begin as the collection's do, and are not its own.
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
      - The roles whose requirements count for the host.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Check the variables
  gpufleet.node.gpu_node_inventory:
    roles: [gpu_node, nvidia_mig]
"""

RETURN = r"""
problems:
  description: What is wrong, one sentence each.
  returned: always
  type: list
  elements: str
  sample: ["nvidia_mig_layuot is no variable of this collection: did you mean nvidia_mig_layout?"]
misspelled:
  description: Those of RV(problems) that are about names.
  returned: always
  type: list
  elements: str
  sample: []
"""
