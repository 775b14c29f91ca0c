#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_k8s
short_description: Internal to the collection's roles, create, change or remove objects in the cluster
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs C(kubernetes.core.k8s) with the access that C(gpu_cluster) has recorded.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  options:
    description:
      - The options of C(kubernetes.core.k8s).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Remove the configurations of the device plugin
  gpufleet.node.gpu_chart_k8s:
    options:
      state: absent
      kind: ConfigMap
      name: gpufleet-device-plugin-configs
      namespace: gpu-operator
  delegate_to: "{{ gpu_cluster_host }}"
  become: "{{ gpu_cluster_host != 'localhost' }}"
"""

RETURN = r"""#"""
