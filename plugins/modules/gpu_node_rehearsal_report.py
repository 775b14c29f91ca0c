#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_rehearsal_report
short_description: Internal to the collection's roles, show the table and the maps of a rehearsal
version_added: 1.0.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Shows the changes of all hosts of the play, and the pods that no node could run.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  result:
    description:
      - The name of the variable with the registered result of M(gpufleet.node.gpu_node_rehearsal).
    type: str
    required: true
  pods:
    description:
      - The path of a file with pods, as manifests or as C(kubectl get pods -o json) prints them.
    type: str
    default: ""
  removed:
    description:
      - The hosts that are not in the inventory any more.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the changes
  gpufleet.node.gpu_node_rehearsal_report:
    result: rehearsal
  run_once: true
"""

RETURN = r"""
problems:
  description: Why the change would fail, by host. Empty lists for the others.
  returned: success
  type: dict
"""
