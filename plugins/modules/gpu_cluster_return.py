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
version_added: 0.9.0
description:
  - Internal to the collection's roles. Restores what M(gpufleet.node.gpu_cluster_drain) changed, restarts the device
    plugin, the operator's validators and its MIG manager, waits until the node advertises the resources of its layout,
    uncordons it, and waits until the evicted pods are ready again, on this or other nodes.
  - Does nothing if the node is in service. Fails if another run, which has not ended, has taken it out of service.
  - Reads the host's variables C(gpu_cluster_drain_*) and C(gpu_cluster_allocator) of the role gpu_cluster.
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
  wait:
    description:
      - Whether to wait until the node advertises its GPUs, and until the evicted pods are ready again.
    type: bool
    default: true
  by_operator:
    description:
      - Whether the GPU operator's MIG manager has made the change, and has restarted other components.
    type: bool
    default: false
  drained:
    description:
      - Whether this run has taken the node out of service. If the record of that is gone, the module fails unless someone
        has returned the node.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Return the node to service
  gpufleet.node.gpu_cluster_return:
"""

RETURN = r"""
{}
"""
