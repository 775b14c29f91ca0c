#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_patch
short_description: Internal to the collection's roles, change nodes of a cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Sends a merge patch for each node, and returns the nodes as they are then. A
    patch with the version of the node that it is based on changes nothing if someone else has changed the node.
  - Takes the kubeconfig and the context from the environment variables C(K8S_AUTH_KUBECONFIG) and C(K8S_AUTH_CONTEXT).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
requirements:
  - kubernetes >= 24.2.0 (Python library)
author:
  - The gpufleet.node authors (@gpufleet)
options:
  patches:
    description:
      - The changes, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      node:
        description:
          - The name of the node.
        type: str
        required: true
      patch:
        description:
          - The merge patch.
        type: dict
        required: true
"""

EXAMPLES = r"""
- name: Cordon a node
  gpufleet.node.gpu_cluster_patch:
    patches:
      - node: gpu-1
        patch: {metadata: {resourceVersion: "4711"}, spec: {unschedulable: true}}
"""

RETURN = r"""
nodes:
  description:
    - The nodes after the change, in the order of O(patches). Null for a node that someone else has changed. In
      check mode, as they would be.
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.patch import patch_nodes
from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module

_PATCH = {
    "node": {"type": "str", "required": True},
    "patch": {"type": "dict", "required": True},
}


def main() -> None:
    module = Module(
        argument_spec={"patches": {"type": "list", "elements": "dict", "required": True, "options": _PATCH}},
        supports_check_mode=True,
    )
    try:
        nodes = Client().use(patch_nodes, module.params["patches"], module.check_mode)
    except Failure as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=any(nodes), nodes=nodes)


if __name__ == "__main__":
    main()
