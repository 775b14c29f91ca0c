#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_reject_forged_facts
short_description: Internal to the collection's roles, fail if facts of the host replace variables
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Any module that runs on a node can return facts with any names. Unless Ansible's setting C(inject_facts_as_vars) is
    off, these replace variables of the inventory. This fails if they have names of variables of this collection.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
"""

EXAMPLES = r"""
- name: Require that no fact replaces a variable
  gpufleet.node.gpu_node_reject_forged_facts:
"""

RETURN = r"""#"""
