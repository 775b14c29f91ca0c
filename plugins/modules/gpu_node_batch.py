#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_batch
short_description: Internal to the collection's roles, stop a play in batches if too many hosts failed
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Ansible itself continues with the next batch if a host failed or is unreachable, unless all hosts of a batch failed.
  - Shows which hosts are done, failed and left.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  most:
    description:
      - Percent of all hosts of the play that may fail before the next batch is not started.
    type: int
    default: 0
  scope:
    description:
      - The hosts of the play. With V(node), nodes, in batches.
      - With V(cluster), all hosts, once after the batches. The play starts only if no host has failed.
      - With V(to_drain), those of the group C(gpu_cluster_to_drain), in batches, in a play with the keyword C(order)
        and the value C(sorted). Those of the group C(gpu_cluster_done) are shown as done.
    type: str
    choices: [node, cluster, to_drain]
    default: node
"""

EXAMPLES = r"""
- name: Stop if earlier batches failed
  gpufleet.node.gpu_node_batch:
    most: 10
  run_once: true
"""

RETURN = r"""
"""
