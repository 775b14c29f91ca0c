#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_drain
short_description: Internal to the collection's roles, take a node of a cluster out of service
version_added: 0.9.0
description:
  - Internal to the collection's roles. Cordons the host's node, evicts pods, and pauses the components of the GPU
    operator with its own labels, unless its MIG manager changes the GPUs. What it changes is recorded in an annotation
    of the node, so that M(gpufleet.node.gpu_cluster_return) and later runs can restore it. A node that was cordoned
    before remains so. Fails if another run, which has not ended, has taken the node out of service.
  - Evictions respect disruption budgets. All are requested at once, and rejected ones again until
    C(gpu_cluster_drain_timeout). Then the node is returned to service, and the message names the pods and budgets. A
    node that an earlier run has drained remains out of service, because its GPUs may have been changed.
  - Reads the host's variables C(gpu_cluster_drain_*) and C(gpu_cluster_allocator) of the role gpu_cluster.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  gpus:
    description:
      - The return value RV(gpufleet.node.nvidia_mig#module:gpus) of the planned change. If omitted, any GPU may change.
    type: list
    elements: dict
  checkpoint:
    description:
      - The kubelet's file C(device-plugins/kubelet_internal_checkpoint), base64-encoded. Without it, each pod that uses
        GPUs counts as affected.
    type: str
  by_operator:
    description:
      - Whether the GPU operator's MIG manager makes the change. It pauses and restarts other components itself.
    type: bool
    default: false
  machine_id:
    description:
      - The base64-encoded file C(/etc/machine-id) of the host. The node must have the same, if both are known. This
        finds mistakes, and proves nothing, because a host can report any machine ID.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Take the node out of service
  gpufleet.node.gpu_cluster_drain:
    gpus: "{{ planned.gpus }}"
"""

RETURN = r"""
evicted:
  description: The pods that were, or would be, evicted.
  returned: always
  type: list
  elements: str
  sample: [default/train-0]
"""
