#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_wait
short_description: Internal to the collection's roles, wait until the nodes of a cluster advertise their GPUs
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reads nodes and pods until each node advertises the expected resources, its MIG
    configuration is applied, and the validator of the GPU operator is ready on it. Shows the progress.
  - On failure, the message lists why pods do not run, and the last lines of a log.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  expected:
    description:
      - The expected state of each node, by node name. C(resources) are the counts of its resources, or V(null) if they
        are unknown; C(config) is the name of its MIG configuration, or empty if the host owns MIG; C(validator) is
        whether the validator of the GPU operator runs there.
    type: dict
    required: true
  namespace:
    description:
      - The namespace of the pods.
    type: str
    required: true
  helm_chart:
    description:
      - The HelmChart resource whose jobs install the chart. Empty if helm installs it.
    type: str
    default: ""
  elsewhere:
    description:
      - Whether to read all pods of the namespace, also those on other nodes.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait. With V(0), reads the state once.
    type: int
    required: true
  settle:
    description:
      - Seconds for which the nodes must stay ready.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Wait until the node advertises seven MIG devices
  gpufleet.node.gpu_chart_wait:
    expected:
      gpu1: {resources: {nvidia.com/gpu: 7}, config: "", validator: true}
    namespace: gpu-operator
    timeout: 600
"""

RETURN = r"""
waiting:
  description: Conditions that are not met yet.
  returned: always
  type: list
  elements: str
  sample: ["gpu1: advertises no GPUs, should advertise nvidia.com/gpu: 7"]
problems:
  description: Failures that do not resolve without a change.
  returned: always
  type: list
  elements: str
  sample: ["gpu1: the MIG manager could not apply gpufleet-0123456789ab"]
"""
