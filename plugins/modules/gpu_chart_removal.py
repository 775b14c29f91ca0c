#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_removal
short_description: Internal to the collection's roles, find what a role has installed in a cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reads the cluster, changes nothing, and returns what has to be removed. Objects of
    other owners are kept. Needs no required variables of the role.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role.
    type: str
    choices: [gpu_operator, device_plugin]
    required: true
"""

EXAMPLES = r"""
- name: Find what the role has installed
  gpufleet.node.gpu_chart_removal:
    role: gpu_operator
  run_once: true
  register: removal
"""

RETURN = r"""
uses_helm:
  description: Whether helm uninstalls the chart. Otherwise, removing the HelmChart does.
  returned: success
  type: bool
objects:
  description: The objects to remove, in this order.
  returned: success
  type: list
  elements: dict
leaves_labels:
  description: Whether labels of the chart remain on nodes when it is uninstalled.
  returned: success
  type: bool
settings:
  description: The variables of the role with their defaults, without its prefix.
  returned: success
  type: dict
"""
