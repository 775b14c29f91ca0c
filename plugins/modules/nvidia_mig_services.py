#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_services
short_description: Internal to the collection's roles, stop and start services that use GPUs
version_added: 0.9.0
description:
  - Internal to the role P(gpufleet.node.nvidia_mig#role). Stops the running units that block a change of the GPUs, and
    starts them again.
  - Records the change and the units before it stops them, so that the next run can start them if this one is interrupted.
  - On a node without systemd, no unit is running.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  state:
    description:
      - V(stopped) stops the running units that O(disruption) requires.
      - V(started) starts the units in O(record) and O(units). The caller removes the record.
    type: str
    choices: [stopped, started]
    required: true
  record:
    description:
      - The file with the names of the stopped units.
    type: path
    required: true
  disruption:
    description:
      - The RV(gpufleet.node.nvidia_mig#module:disruption) of the planned change.
    type: str
    choices: [none, create, destroy, mode]
    default: none
  clients:
    description:
      - Units to stop if instances are destroyed or the MIG mode changes. Names, or patterns with V(*) and V(?).
    type: list
    elements: str
    default: []
  mode_clients:
    description:
      - Units to stop only if the MIG mode changes.
    type: list
    elements: str
    default: []
  units:
    description:
      - Units to start in addition to those in O(record), which a reboot removes.
    type: list
    elements: str
    default: []
  processes:
    description:
      - With O(state=stopped), process IDs for RV(others).
    type: list
    elements: int
    default: []
  layout:
    description:
      - With O(state=stopped), the layout. Warns if it splits GPU instances and a kubelet is running.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Stop GPU clients
  gpufleet.node.nvidia_mig_services:
    state: stopped
    record: /run/stopped-clients.json
    disruption: destroy
    clients: [dcgm.service]
"""

RETURN = r"""
stopped:
  description: The units that were stopped, or in check mode would be.
  returned: if O(state=stopped)
  type: list
  elements: str
  sample: [dcgm.service]
others:
  description: Those of O(processes) that do not belong to these units, and would not stop with them.
  returned: if O(state=stopped)
  type: list
  elements: int
  sample: []
started:
  description: The units that were started, or in check mode would be.
  returned: if O(state=started)
  type: list
  elements: str
  sample: [dcgm.service]
interrupted:
  description: Whether a record exists, because an earlier run did not complete.
  returned: if O(state=started)
  type: bool
  sample: false
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.services import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
