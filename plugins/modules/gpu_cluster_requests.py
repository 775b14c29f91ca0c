#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_requests
short_description: Internal to the collection's roles, read and change objects of a cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Sends requests to the API of a cluster, in this order. Those that the API rejects
    do not stop the others, except patches. In check mode, the API only checks changes.
  - Takes the kubeconfig and the context from the environment variables C(K8S_AUTH_KUBECONFIG) and C(K8S_AUTH_CONTEXT).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
requirements:
  - kubernetes >= 24.2.0 (Python library)
author:
  - The gpufleet.node authors (@gpufleet)
options:
  requests:
    description:
      - The requests.
    type: list
    elements: dict
    required: true
    suboptions:
      verb:
        description:
          - V(read) reads what C(kubernetes.core.k8s_info) reads.
          - V(patch) sends a merge patch. One with the C(metadata.resourceVersion) that it is based on changes
            nothing if someone else has changed the object.
          - V(evict) and V(delete) do not wait until the object is gone, and ignore one that does not exist any more.
            V(evict) respects disruption budgets.
        type: str
        choices: [read, patch, evict, delete]
        required: true
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
          - The name of one object. Only V(read) can omit it.
        type: str
      namespace:
        description:
          - The namespace. Without it, V(read) reads objects of all namespaces.
        type: str
      label_selectors:
        description:
          - Label selectors that all objects to read must match.
        type: list
        elements: str
        default: []
      field_selectors:
        description:
          - Field selectors that all objects to read must match.
        type: list
        elements: str
        default: []
      patch:
        description:
          - The merge patch.
        type: dict
      uid:
        description:
          - The UID of the object to evict or delete, so that another one with the same name is not affected.
        type: str
      grace_period:
        description:
          - Seconds to terminate. If negative, the pod's own.
        type: int
        default: -1
"""

EXAMPLES = r"""
- name: Read nodes and pods
  gpufleet.node.gpu_cluster_requests:
    requests:
      - {verb: read, kind: Node}
      - {verb: read, kind: Pod, namespace: gpu-operator}

- name: Cordon a node
  gpufleet.node.gpu_cluster_requests:
    requests:
      - verb: patch
        kind: Node
        name: gpu-1
        patch: {metadata: {resourceVersion: "4711"}, spec: {unschedulable: true}}

- name: Evict a pod
  gpufleet.node.gpu_cluster_requests:
    requests:
      - {verb: evict, kind: Pod, namespace: default, name: train-0, uid: 7f1c2c8e-61b4-4ac1-a3a2-d4c5b3d9d6e1}
"""

RETURN = r"""
results:
  description: One result for each element of O(requests), in the same order.
  returned: success
  type: list
  elements: dict
  contains:
    resources:
      description: The objects that were read. Absent if the API rejected the request.
      type: list
      elements: dict
    api_found:
      description: Whether the API knows the kind of the objects to read.
      type: bool
    object:
      description:
        - The object after the patch, or in check mode, as it would be. Null if someone else has changed it.
      type: dict
    changed:
      description: Whether the API accepted a change.
      type: bool
    msg:
      description: Why the API rejected the request.
      type: str
      sample: >-
        Cannot evict pod as it would violate the pod's disruption budget. The disruption budget train needs 2 healthy
        pods and has 2 currently
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.requests import send
from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module

_REQUEST = {
    "verb": {"type": "str", "required": True, "choices": ["read", "patch", "evict", "delete"]},
    "api_version": {"type": "str", "default": "v1"},
    "kind": {"type": "str", "required": True},
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "label_selectors": {"type": "list", "elements": "str", "default": []},
    "field_selectors": {"type": "list", "elements": "str", "default": []},
    "patch": {"type": "dict"},
    "uid": {"type": "str"},
    "grace_period": {"type": "int", "default": -1},
}
_REQUIRED = [
    ["verb", "patch", ["name", "patch"]],
    ["verb", "evict", ["namespace", "name", "uid"]],
    ["verb", "delete", ["namespace", "name", "uid"]],
]


def main() -> None:
    requests = {"type": "list", "elements": "dict", "required": True, "options": _REQUEST, "required_if": _REQUIRED}
    module = Module(argument_spec={"requests": requests}, supports_check_mode=True)
    try:
        results = Client().use(send, module.params["requests"], module.check_mode)
    except Failure as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=any(each.get("changed") for each in results), results=results)


if __name__ == "__main__":
    main()
