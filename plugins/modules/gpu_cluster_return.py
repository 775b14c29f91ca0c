#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_return
short_description: Internal to the collection's roles, return a node of a cluster to service
version_added: 0.1.0
description:
  - Internal to the collection's roles. Restores what M(gpufleet.node.gpu_cluster_drain) changed, restarts the device
    plugin and the operator's validators, waits until the node advertises the resources of its layout, and uncordons it.
    Does nothing if the node is in service.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  uncordon:
    description:
      - Whether to wait and to uncordon the node. With V(false), only the components of the GPU operator are resumed.
    type: bool
    default: true
  layout_applied:
    description:
      - Whether the node must advertise the resources of the layout in its variables.
    type: bool
    default: true
  holder:
    description:
      - The return value RV(gpufleet.node.gpu_cluster_drain#module:holder). Fails if another run has drained the node
        since. If empty, returns a node that any run has drained.
    type: str
    default: ""
  timeout:
    description:
      - Seconds to wait.
    type: int
    required: true
  interval:
    description:
      - Seconds between polls.
    type: int
    default: 5
"""

EXAMPLES = r"""
- name: Return the node to service
  gpufleet.node.gpu_cluster_return:
    timeout: 600
"""

RETURN = r"""
{}
"""
