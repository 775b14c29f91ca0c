#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_steps
short_description: Internal to the collection's roles, decide which steps of a change of MIG follow its plan
version_added: 0.9.0
description:
  - Internal to the role P(gpufleet.node.nvidia_mig#role). Finds the GPU clients that the planned change would stop, and
    decides which steps follow.
  - Fails if processes block the change, which the role can neither stop nor wait for, or if O(undo) cannot disable MIG
    mode. In check mode, it also fails if the role would fail because a GPU needs a reset or reboot that is not allowed.
  - Changes nothing if the task has C(check_mode=true), which it needs. The steps are those of the run, with or without
    check mode.
  - Runs on the controller, and calls M(gpufleet.node.nvidia_mig_services) on the node.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  plan:
    description:
      - The result of M(gpufleet.node.nvidia_mig) in check mode, also if it failed because GPUs are in use.
    type: dict
    required: true
  interrupted:
    description:
      - Whether an earlier run was interrupted during a change.
    type: bool
    required: true
  skip_busy:
    description:
      - Whether GPUs that processes block are RV(deferred) instead of a failure.
    type: bool
    required: true
  busy_wait:
    description:
      - Seconds to wait for these processes to exit.
    type: int
    required: true
  undo:
    description:
      - Whether the change must complete in this run. Fails if it needs a reset that is not allowed or that processes
        block, or a reboot without O(reboot).
    type: bool
    default: false
  reboot:
    description:
      - Whether the role may reboot the node.
    type: bool
    default: false
  drains:
    description:
      - Whether the node is drained before its change, which ends processes. In check mode, these are then a warning.
    type: bool
    default: false
  record:
    description:
      - See M(gpufleet.node.nvidia_mig_services).
    type: str
    required: true
  clients:
    description:
      - See M(gpufleet.node.nvidia_mig_services).
    type: list
    elements: str
    required: true
  mode_clients:
    description:
      - See M(gpufleet.node.nvidia_mig_services).
    type: list
    elements: str
    required: true
  layout:
    description:
      - The layout.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Decide which steps follow the plan
  gpufleet.node.nvidia_mig_steps:
    plan: "{{ plan }}"
    interrupted: false
    skip_busy: false
    busy_wait: 0
    record: /run/stopped-clients.json
    clients: [dcgm.service]
    mode_clients: []
    layout: "{{ nvidia_mig_layout }}"
  check_mode: true
  register: steps
"""

RETURN = r"""
deferred:
  description:
    - With O(skip_busy), why GPUs are or would be left unchanged, a reason for each GPU that processes block, which the
      role can neither stop nor wait for.
  returned: success
  type: list
  elements: str
converge:
  description: Whether GPUs must be changed, or a change that was interrupted completed. Never in check mode.
  returned: success
  type: bool
verify:
  description: Whether the GPUs must be compared with the layout again. Never in check mode.
  returned: success
  type: bool
changing:
  description:
    - The UUIDs of the GPUs that the role would change, with those whose processes belong to units that would be
      stopped, or would be awaited.
  returned: success, and on failure except of the clients
  type: list
  elements: str
preview:
  description: In check mode, the slice map of the GPUs whose profiles the node does not list yet, after the reason.
  returned: success
  type: list
  elements: str
"""
