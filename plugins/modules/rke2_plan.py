#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_plan
short_description: Internal to the collection's roles, plan the installation of RKE2 on a node
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Plans the role's actions from its variables (C(rke2_*)), the inventory groups and the state of the nodes, and
    validates the configuration. Runs on the controller.
  - Requires the facts of the node, and those of the first server unless C(rke2_api_ip) is set. Returns problems instead
    of failing. The plan contains no secret.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  states:
    description:
      - The results of M(gpufleet.node.rke2_state) on the node and, for a server, on all servers, by host.
      - Without them, nothing is planned, and only RV(names) is returned.
    type: dict
"""

EXAMPLES = r"""
- name: Plan
  gpufleet.node.rke2_plan:
    states: {gpu-1: "{{ found }}"}
  register: planned
"""

RETURN = r"""
names:
  description: The names that the node may have in the cluster, according to the inventory, in order of preference.
  returned: success
  type: list
  elements: str
  sample: [gpu-1.example.com, gpu-1]
plan:
  description: What to do. Empty if there are problems.
  returned: if O(states) is set
  type: dict
problems:
  description: Why RKE2 cannot be installed, in sentences without a full stop.
  returned: if O(states) is set
  type: list
  elements: str
differences:
  description: A problem if the requested version is not installed. Otherwise empty.
  returned: if O(states) is set
  type: list
  elements: str
"""
