#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_objects
short_description: Internal to the collection's roles, read objects of several kinds from a cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reads what C(kubernetes.core.k8s_info) reads, but several kinds at once. Takes
    the kubeconfig and the context from the same environment variables, C(K8S_AUTH_KUBECONFIG) and C(K8S_AUTH_CONTEXT).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
requirements:
  - kubernetes >= 24.2.0 (Python library)
author:
  - The gpufleet.node authors (@gpufleet)
options:
  objects:
    description:
      - The objects to read.
    type: list
    elements: dict
    required: true
    suboptions:
      api_version:
        description:
          - The API group and version.
        type: str
        default: v1
      kind:
        description:
          - The kind.
        type: str
        required: true
      name:
        description:
          - The name of one object.
        type: str
      namespace:
        description:
          - The namespace. Without it, objects of all namespaces.
        type: str
      label_selectors:
        description:
          - Label selectors that all must match.
        type: list
        elements: str
        default: []
      field_selectors:
        description:
          - Field selectors that all must match.
        type: list
        elements: str
        default: []
"""

EXAMPLES = r"""
- name: Read nodes and pods
  gpufleet.node.gpu_cluster_objects:
    objects:
      - {kind: Node}
      - {kind: Pod, namespace: gpu-operator}
"""

RETURN = r"""
results:
  description: One result for each element of O(objects), in the same order.
  returned: success
  type: list
  elements: dict
  contains:
    resources:
      description: The objects. Absent if the API rejected the request.
      type: list
      elements: dict
    api_found:
      description: Whether the API knows the kind.
      type: bool
    msg:
      description: Why the API rejected the request.
      type: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.objects import read_objects
from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module

_OBJECT = {
    "api_version": {"type": "str", "default": "v1"},
    "kind": {"type": "str", "required": True},
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "label_selectors": {"type": "list", "elements": "str", "default": []},
    "field_selectors": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    module = Module(
        argument_spec={"objects": {"type": "list", "elements": "dict", "required": True, "options": _OBJECT}},
        supports_check_mode=True,
    )
    try:
        results = Client().use(read_objects, module.params["objects"])
    except Failure as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, results=results)


if __name__ == "__main__":
    main()
