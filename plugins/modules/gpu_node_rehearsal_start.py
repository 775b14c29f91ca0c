#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_rehearsal_start
short_description: Internal to the collection's roles, read what a rehearsal starts from
version_added: 1.0.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Reads the former inventory or the report, and writes what each host of the play starts from to a folder in Ansible's
    temporary directory, which Ansible removes when the run ends.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  source:
    description:
      - The path of a former inventory, or of a report's JSON. Empty or V(empty) for GPUs without MIG.
    type: str
    default: ""
  busy:
    description:
      - The instances with work. A list of dictionaries with C(host) and optionally C(gpu), C(profile), C(start), C(count)
        and C(name), as it is or as JSON, the path of a file with such a list, or that of a report's JSON.
    type: raw
  pods:
    description:
      - The path of a file with pods, which is only validated here.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Read what the hosts start from
  gpufleet.node.gpu_node_rehearsal_start:
    source: inventory.before
  run_once: true
"""

RETURN = r"""
folder:
  description: The folder, for O(gpufleet.node.gpu_node_rehearsal#module:folder).
  returned: success
  type: str
removed:
  description: The hosts of O(source) that are not in the inventory any more.
  returned: success
  type: list
  elements: str
"""
