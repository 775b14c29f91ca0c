#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_report
short_description: Internal to the collection's roles, write the report of the fleet
version_added: 1.0.0
description:
  - Internal to the collection's roles. Writes on the controller a page and a JSON file about all hosts of the play, from
    what M(gpufleet.node.node_state) returned for them, their variables, and the cluster.
  - A host that could not be read, or a cluster, is shown as such, and is no error.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Writes no files.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - Files that differ only in the date are written, but are no change.
author:
  - The gpufleet.node authors (@gpufleet)
options:
  path:
    description:
      - The directory for C(index.html) and C(report.json), or the path of the page, which ends with C(.html). The data
        are then beside it.
    type: str
    required: true
  previous:
    description:
      - The data of a former report, or its directory, to show what has changed since.
    type: str
    default: ""
  state:
    description:
      - The name of the variable in which each host has the result of M(gpufleet.node.node_state).
    type: str
    required: true
  cluster:
    description:
      - Whether the hosts are nodes of a cluster.
    type: bool
    default: false
  cluster_problem:
    description:
      - Why the cluster cannot be read. If empty, it is read.
    type: str
    default: ""
  strategy:
    description:
      - The MIG strategy of nodes whose labels do not show it.
    type: str
    default: mixed
  allocator:
    description:
      - What hands out GPUs to pods, V(device_plugin) or V(dra).
    type: str
    default: device_plugin
"""

EXAMPLES = r"""
- name: Write the report
  gpufleet.node.gpu_node_report:
    path: gpufleet-report
    state: node_state_result
  run_once: true
"""

RETURN = r"""
page:
  description: The path of the page.
  returned: success
  type: str
  sample: /home/ops/gpufleet-report/index.html
data:
  description: The path of the data.
  returned: success
  type: str
  sample: /home/ops/gpufleet-report/report.json
totals:
  description: The totals of the fleet.
  returned: success
  type: dict
  sample: {"hosts": 2, "hosts_unread": 0, "hosts_with_problems": 1, "gpus": 16, "gpus_unread": 0}
"""
