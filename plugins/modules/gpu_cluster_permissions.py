#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_permissions
short_description: Internal to the collection's roles, check the permissions to drain nodes
version_added: 0.9.0
description:
  - Internal to the collection's roles. Checks whether the user of the kubeconfig has the permissions of the ClusterRole
    C(gpufleet-drain). Returns problems instead of failing.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  may_be_missing:
    description:
      - Whether to accept an unreachable cluster.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check the permissions to drain
  gpufleet.node.gpu_cluster_permissions:
  run_once: true
  register: allowed
"""

RETURN = r"""
problems:
  description: The problems, in sentences without a full stop.
  returned: success
  type: list
  elements: str
  sample: ["the user of the kubeconfig is not allowed to patch nodes: bind the ClusterRoles of the collection"]
"""
