#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_label
short_description: Internal to the collection's roles, label nodes of a cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Changes labels of nodes. Optionally restarts the GPU operator's MIG managers on
    these nodes first, so that they read their ConfigMap again, and waits for their end before the label of their
    configuration is removed. Repeats requests while the API server does not respond.
  - Fails if another run has taken one of the nodes out of service. Reads the host's variable
    C(gpu_cluster_drain_takeover).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  nodes:
    description:
      - The changes, with the keys C(node) and C(labels). The value null removes a label.
    type: list
    elements: dict
    default: []
  undo:
    description:
      - Labels to remove on all nodes, instead of changing O(nodes). V(own) are those that roles of this collection have
        set, and V(operator) those that only the GPU operator writes, and leaves when it is uninstalled.
    type: str
    default: ""
    choices: ["", own, operator]
  retry:
    description:
      - Nodes whose MIG manager applies its configuration again after a failure.
    type: list
    elements: str
    default: []
  managers:
    description:
      - The namespace of the MIG managers to restart, or to wait for. Empty does neither.
    type: str
    default: ""
  drained:
    description:
      - Whether this run must have taken the nodes out of service. Otherwise, another run must not have.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for each step, such as the end of the MIG managers.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Have the MIG manager apply another configuration
  gpufleet.node.gpu_chart_label:
    nodes:
      - {node: gpu-1, labels: {nvidia.com/mig.config: all-balanced}}
    managers: gpu-operator
"""

RETURN = r"""#"""
