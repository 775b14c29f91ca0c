#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_plan
short_description: Internal to the collection's roles, plan what a role installs in a Kubernetes cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reads the cluster with the modules of C(kubernetes.core), computes the values of a
    chart from the variables of the role, validates them, checks the layouts of all hosts of the play against the MIG
    strategy, and finds other owners of MIG in the cluster.
  - Takes the kubeconfig and the context from the environment variables of C(kubernetes.core). Requires the facts of M(gpufleet.node.nvidia_driver_facts)
    and C(ansible_nodename) of all hosts of the play. Returns problems instead of failing.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role.
    type: str
    choices: [gpu_operator, device_plugin]
    required: true
  may_be_missing:
    description:
      - Whether to accept an unreachable cluster, and hosts that are no nodes of it.
    type: bool
    default: false
  changes:
    description:
      - Whether the role is going to change the cluster, and so needs the permissions for it.
    type: bool
    default: true
  check_pods:
    description:
      - Whether the GPUs are going to be checked with pods, which needs permissions too.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Plan
  gpufleet.node.gpu_chart_plan:
    role: gpu_operator
  run_once: true
  register: planned
"""

RETURN = r"""
problems:
  description: The problems by host, in sentences without a full stop. The cluster's problems are under the first host.
  returned: success
  type: dict
  sample: {"gpu1": ["the cluster has no node named gpu1"]}
refusal:
  description: The problems of all hosts in one sentence, without a full stop.
  returned: success
  type: str
  sample: "gpu1: the cluster has no node named gpu1"
settings:
  description: The variables of the role with their defaults, without its prefix.
  returned: success
  type: dict
missing:
  description: Whether the cluster cannot be read, and this is accepted.
  returned: success
  type: bool
expected:
  description:
    - The expected state of the nodes that are not in RV(while_drained), by node, as
      O(gpufleet.node.gpu_chart_wait#module:expected) takes it.
    - This and the following values are the plan. They are only returned if there are no problems, and the cluster can be
      read.
  returned: with a plan
  type: dict
while_drained:
  description:
    - What changes on nodes while they are drained, by host, with C(labels), C(retry), C(plugin_labels) and C(expected)
      of this node; C(differences) are between node and variables.
  returned: with a plan
  type: dict
outdated:
  description: What differs from the variables, with their names, except for a chart that helm installs.
  returned: with a plan
  type: list
  elements: str
  sample: ["ConfigMap gpufleet-mig-configs (nvidia_mig_layout)"]
objects:
  description:
    - The objects to write before the chart is installed, with their C(definition), the C(variables) that set them, and
      whether they are current (C(is_current)). C(in_check_mode) is false if the namespace of the object does not exist, because check mode
      does not create it.
  returned: with a plan
  type: list
  elements: dict
method:
  description: How the chart is installed, C(helm_chart) or C(helm).
  returned: with a plan
  type: str
helm_chart:
  description: The HelmChart, for the method C(helm_chart), with the keys of RV(objects).
  returned: with a plan
  type: dict
chart_values:
  description: The values of the chart.
  returned: with a plan
  type: dict
has_gfd:
  description: Whether GPU feature discovery labels the nodes.
  returned: with a plan
  type: bool
pods_runtime_class:
  description: The RuntimeClass of pods that use GPUs. Empty if they need none.
  returned: with a plan
  type: str
labels:
  description: Labels of the MIG manager, with C(node) and C(labels), which are written before the chart is installed.
  returned: with a plan
  type: list
  elements: dict
retry:
  description: Nodes on which the MIG manager applies a failed configuration again.
  returned: with a plan
  type: list
  elements: str
removed:
  description: Labels of the MIG manager, which are removed after the chart has stopped it.
  returned: with a plan
  type: list
  elements: dict
plugin_labels:
  description: Labels of the device plugin, which are written after the chart is installed.
  returned: with a plan
  type: list
  elements: dict
stale:
  description: Pods of the device plugin that are older than the MIG instances, with C(namespace), C(name) and C(uid).
  returned: with a plan
  type: list
  elements: dict
"""
