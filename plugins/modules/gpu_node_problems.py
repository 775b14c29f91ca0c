#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_problems
short_description: Internal to the collection's roles, fails if a check found problems
version_added: 0.1.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Reads the fact C(gpu_node_problems) and fails with one message that lists all problems.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  check:
    description:
      - With V(preflight), reports the problems of all hosts of the play. With V(verify), those of the host.
    type: str
    choices: [preflight, verify]
    required: true
"""

EXAMPLES = r"""
- name: Fail if any host has problems
  gpufleet.node.gpu_node_problems:
    check: preflight
  run_once: true
"""

RETURN = r"""
"""
