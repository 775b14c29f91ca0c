#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_pods
short_description: Internal to the collection's roles, evict or delete pods
version_added: 0.9.0
description:
  - Internal to the collection's roles. Requests the eviction of all pods, also if the API rejects some of them because
    of a disruption budget. Does not wait until the pods are gone.
  - Takes the kubeconfig and the context from the environment variables C(K8S_AUTH_KUBECONFIG) and C(K8S_AUTH_CONTEXT).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
requirements:
  - kubernetes >= 24.2.0 (Python library)
author:
  - The gpufleet.node authors (@gpufleet)
options:
  state:
    description:
      - V(evicted) respects disruption budgets, V(deleted) does not.
    type: str
    choices: [evicted, deleted]
    required: true
  pods:
    description:
      - The pods. Pods that do not exist any more are ignored.
    type: list
    elements: dict
    required: true
    suboptions:
      namespace:
        description:
          - The namespace.
        type: str
        required: true
      name:
        description:
          - The name.
        type: str
        required: true
      uid:
        description:
          - The UID, so that a new pod with the same name is not affected.
        type: str
        required: true
  grace_period:
    description:
      - Seconds to terminate. If negative, the pod's own.
    type: int
    default: -1
"""

EXAMPLES = r"""
- name: Evict a pod
  gpufleet.node.gpu_cluster_pods:
    state: evicted
    pods:
      - {namespace: default, name: train-0, uid: 7f1c2c8e-61b4-4ac1-a3a2-d4c5b3d9d6e1}
"""

RETURN = r"""
rejected:
  description: The pods that the API did not accept, with the C(reason). In check mode, the API only checks the requests.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      name: train-0
      uid: 7f1c2c8e-61b4-4ac1-a3a2-d4c5b3d9d6e1
      reason: >-
        Cannot evict pod as it would violate the pod's disruption budget. The disruption budget train needs 2 healthy
        pods and has 2 currently
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.client import Client, Failure
from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster.pods import remove_pods
from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module

_POD = {
    "namespace": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "uid": {"type": "str", "required": True},
}


def main() -> None:
    module = Module(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": ["evicted", "deleted"]},
            "pods": {"type": "list", "elements": "dict", "required": True, "options": _POD},
            "grace_period": {"type": "int", "default": -1},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        accepted, rejected = Client().use(
            remove_pods, given["state"], given["pods"], given["grace_period"], module.check_mode
        )
    except Failure as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=accepted > 0, rejected=rejected)


if __name__ == "__main__":
    main()
