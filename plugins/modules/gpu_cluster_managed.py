#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_managed
short_description: Internal to the collection's roles, find the GPU nodes of a managed cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Finds GPU nodes through the API, with the boards of their GPUs, and the owner of
    MIG on their platform. Fails if a node that cannot be changed does not match its layout, and warns about nodes with
    GPUs that the selector does not match.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  selector:
    description:
      - Label selectors of the nodes. If empty, the nodes with GPUs.
    type: list
    elements: str
    default: []
  boards:
    description:
      - The boards of each node's GPUs. If empty, those of its instance type.
    type: list
    elements: str
    default: []
  layout:
    description:
      - The MIG layout of the nodes. If omitted, MIG is not configured.
    type: raw
  sharing:
    description:
      - How the GPUs of the nodes are shared, as C(gpu_cluster_sharing).
    type: raw
  strategy:
    description:
      - The MIG strategy of the device plugin.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Find the nodes of a node group
  gpufleet.node.gpu_cluster_managed:
    selector: ["eks.amazonaws.com/nodegroup=gpu"]
    strategy: mixed
"""

RETURN = r"""
nodes:
  description: The nodes on which charts are installed, each with C(name), C(boards), and C(owner) of MIG.
  returned: when the cluster can be read
  type: list
  elements: dict
  sample: [{name: ip-10-0-1-7.ec2.internal, boards: [A100-40GB], owner: operator}]
verified:
  description: Names of nodes that match their layout, and on whose platform nothing is changed.
  returned: when the cluster can be read
  type: list
  elements: str
  sample: [gke-gpu-1]
skipped:
  description: Names of nodes on whose platform nothing is changed, and that are not compared without a layout.
  returned: when the cluster can be read
  type: list
  elements: str
  sample: []
problems:
  description: Nodes that do not match their layout, and cannot be changed.
  returned: when the cluster can be read
  type: list
  elements: str
  sample: ["node gpu1 has the unknown instance type g99.large: set gpu_node_boards to the boards of its GPUs"]
"""
