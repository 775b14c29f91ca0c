#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_rehearsal
short_description: Internal to the collection's roles, rehearse the change of the GPUs of a host
version_added: 1.0.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Creates a simulated node with the GPUs of the host, and runs M(gpufleet.node.nvidia_mig) on it, with the variables of
    the host.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  folder:
    description:
      - The folder of the rehearsal, in which M(gpufleet.node.gpu_node_rehearsal_start) has written what the host starts
        from.
    type: str
    required: true
  problems:
    description:
      - The problems of the variables of the host. If there are any, nothing is simulated.
    type: list
    elements: str
    required: true
  activation:
    description:
      - What a change of MIG mode needs on GPUs of the Ampere generation. An idle GPU, a reset, or a reboot.
    type: str
    choices: [auto, reset, reboot]
    default: auto
"""

EXAMPLES = r"""
- name: Rehearse the change
  gpufleet.node.gpu_node_rehearsal:
    folder: "{{ start.folder }}"
    problems: []
"""

RETURN = r"""
outcome:
  description: What the change keeps, destroys and creates, what it needs, and why it would fail.
  returned: success
  type: dict
"""
