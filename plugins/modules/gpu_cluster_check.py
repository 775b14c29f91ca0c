#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_check
short_description: Internal to the collection's roles, check the GPUs of a cluster with pods
version_added: 0.1.0
description:
  - Internal to the collection's roles. Starts a job for each resource of each node, with one pod for each GPU or MIG
    device that is not in use. Each pod must list exactly one device with C(nvidia-smi -L), and all devices must differ.
    Removes the jobs, even after an error.
  - Also checks the RuntimeClass of the pods and the labels of GPU feature discovery.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  wanted:
    description:
      - What each node advertises, by node name. C(resources) are the counts of its resources. Other keys are ignored.
    type: dict
    required: true
  strategy:
    description:
      - The MIG strategy of the device plugin.
    type: str
    required: true
  labels:
    description:
      - Whether GPU feature discovery labels the nodes.
    type: bool
    required: true
  namespace:
    description:
      - The namespace of the jobs.
    type: str
    required: true
  runtime_class:
    description:
      - The RuntimeClass of the pods. Empty for the default runtime.
    type: str
    required: true
  image:
    description:
      - The image of the pods.
    type: str
    required: true
  timeout:
    description:
      - Seconds to wait for the output of all pods, and for the labels.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Check seven MIG devices
  gpufleet.node.gpu_cluster_check:
    wanted:
      gpu1: {resources: {nvidia.com/gpu: 7}}
    strategy: single
    labels: true
    namespace: gpu-operator
    runtime_class: nvidia
    image: docker.io/nvidia/cuda:12.1.1-base-ubuntu22.04
    timeout: 300
"""

RETURN = r"""
devices:
  description: The devices that the pods listed.
  returned: always
  type: list
  elements: dict
  sample: [{node: gpu1, resource: nvidia.com/gpu, uuid: MIG-3ba76b8d-4677-5637-bb32-ce72da625fa2}]
problems:
  description: The problems.
  returned: always
  type: list
  elements: str
  sample: ["the cluster has no RuntimeClass nvidia, which pods need to use GPUs"]
"""
