#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_problems
short_description: Internal to the collection's roles, report the problems that a check found
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs on the controller, and does not connect to the host.
  - Reads the fact C(gpu_node_problems).
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  check:
    description:
      - With V(preflight), returns the messages about the problems of all hosts of the play.
      - With V(verify), returns one message that lists the problems of the host.
    type: str
    choices: [preflight, verify]
    required: true
  gathered:
    description:
      - With O(check=preflight), the name of the variable with the result of gathering a host's facts, from which hosts
        that cannot be reached are recognized.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Collect the problems of all hosts
  gpufleet.node.gpu_node_problems:
    check: preflight
    gathered: facts_result
  register: found
  run_once: true
"""

RETURN = r"""
message:
  description: The message about the host's problems. Empty if it has none.
  returned: with O(check=verify)
  type: str
problems:
  description: The problems, by host. Those of a host that was not checked are unknown, and its list says so.
  returned: success
  type: dict
  sample: {"gpu-1": ["GPU 0 is in use"], "gpu-2": []}
messages:
  description:
    - The message of each host that has problems. The first one lists those of all hosts, the others refer to it.
    - If only hosts that have left the play have problems, another host has the message.
  returned: with O(check=preflight)
  type: dict
  sample: {"gpu-1": "Nothing was changed. Problems: 1\n- gpu-1, gpu-2: ...", "gpu-2": "Its problems are in ..."}
stops:
  description: Whether hosts have problems that C(gpu_node_skip) does not allow to skip.
  returned: with O(check=preflight)
  type: bool
left_out:
  description: The hosts that cannot be reached and have left the play, and unless RV(stops) those with problems.
  returned: with O(check=preflight)
  type: list
  elements: str
  sample: [gpu-3]
"""
