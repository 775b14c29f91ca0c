#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_dra
short_description: Internal to the collection's roles, check NVIDIA's DRA driver
version_added: 0.9.0
description:
  - Internal to the collection's roles. Checks the DRA driver of the cluster, and whether it publishes the GPUs and MIG
    devices that the hosts of the play have. Returns problems instead of failing.
  - Requires the facts of M(gpufleet.node.nvidia_driver_facts) and C(ansible_nodename) of all hosts of the play.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  check:
    description:
      - V(verify) also compares the published devices with those of the hosts.
    type: str
    choices: [preflight, verify]
    required: true
  may_be_missing:
    description:
      - Whether to accept an unreachable cluster.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Compare the published devices
  gpufleet.node.gpu_cluster_dra:
    check: verify
  run_once: true
  register: compared
"""

RETURN = r"""
problems:
  description: The problems by host, in sentences without a full stop. The cluster's problems are under each host.
  returned: success
  type: dict
  sample: {"gpu1": ["gpu1: 1 of 7 devices are not published: MIG-22222222-2222-5222-9222-222222222222 (1g.10gb)"]}
"""
