#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_node
short_description: Internal to the collection's roles, set labels and taints of an RKE2 node
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Sets labels and taints of a node with RKE2's own kubectl, since RKE2 applies those in its configuration only when
    the node joins. Runs on a server. Keeps other labels and taints.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  name:
    description:
      - The node's name in the cluster.
    type: str
    required: true
  data_path:
    description:
      - RKE2's data directory.
    type: path
    required: true
  kubeconfig:
    description:
      - The administrator's kubeconfig.
    type: path
    required: true
  labels:
    description:
      - Labels as C(key=value).
    type: list
    elements: str
    default: []
  taints:
    description:
      - Taints as C(key=value:effect) or C(key:effect).
    type: list
    elements: str
    default: []
  former_labels:
    description:
      - Labels to remove if they are not in O(labels) and still have this value.
    type: list
    elements: str
    default: []
  former_taints:
    description:
      - Taints to remove if they are not in O(taints) and still have this value.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Label the node
  gpufleet.node.rke2_node:
    name: gpu-1
    data_path: /var/lib/rancher/rke2
    kubeconfig: /etc/rancher/rke2/rke2.yaml
    labels: [example.com/pool=gpu]
  delegate_to: server-1
"""

RETURN = r"""
changes:
  description: The changes, or in check mode the planned changes.
  returned: success
  type: list
  elements: str
  sample: [Label example.com/pool=gpu]
problems:
  description: In check mode, a problem that names the planned changes. Otherwise empty.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.node import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
