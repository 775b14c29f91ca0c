#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_compare
short_description: Internal to the collection's roles, compare a cluster with a plan
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reports the differences between a cluster and a plan of
    M(gpufleet.node.gpu_chart_plan), and why nodes do not advertise the GPUs of their layouts. Returns problems instead
    of failing.
  - With O(check_pods), if all nodes are ready, starts a job for each resource of each node, with one pod for each GPU or
    MIG device that is not in use. Each pod must list exactly one device with C(nvidia-smi -L), and all devices must
    differ. Also checks the RuntimeClass of the pods and the labels of GPU feature discovery. Removes the jobs, even after
    an error. Check mode starts no pods.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  plan:
    description:
      - The return values of M(gpufleet.node.gpu_chart_plan).
    type: dict
    required: true
  server:
    description:
      - The host whose Kubernetes client is used, for messages.
    type: str
    required: true
  managed:
    description:
      - Whether the nodes are those of a managed cluster, for the playbook that messages name.
    type: bool
    default: false
  helm_changes:
    description:
      - Whether helm would change the chart.
    type: bool
    default: false
  check_pods:
    description:
      - Whether to check the GPUs with pods.
    type: bool
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
- name: Plan
  gpufleet.node.gpu_chart_plan:
    role: gpu_operator
    changes: false
  run_once: true
  register: planned

- name: Compare the cluster with the plan
  gpufleet.node.gpu_chart_compare:
    plan: "{{ planned }}"
    server: localhost
    check_pods: true
    image: docker.io/nvidia/cuda:12.1.1-base-ubuntu22.04
    timeout: 300
  run_once: true
  register: compared
"""

RETURN = r"""
devices:
  description: The devices that the pods listed.
  returned: always
  type: list
  elements: dict
  sample: [{node: gpu1, resource: nvidia.com/gpu, uuid: MIG-3ba76b8d-4677-5637-bb32-ce72da625fa2}]
problems:
  description:
    - The problems of the plan and the differences, by host. Those that concern the cluster are under the first host.
  returned: always
  type: dict
  sample: {"gpu1": ["the cluster does not match the variables: HelmChart gpu-operator (gpu_operator_*). Run site.yml"], "gpu2": []}
"""
