#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_state
short_description: Internal to the collection's roles, read the state of an RKE2 node
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Reads the installed version, the record of the role rke2, other Kubernetes installations, and problems that would
    prevent RKE2 from starting. Changes nothing.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  data_path:
    description:
      - RKE2's data directory.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read the state of the node
  gpufleet.node.rke2_state:
    data_path: /var/lib/rancher/rke2
  register: found
"""

RETURN = r"""
state:
  description: The state of the node.
  returned: success
  type: dict
  contains:
    recorded:
      description: The role's record. Empty if it did not install RKE2.
      type: dict
    version:
      description: The installed version, or V(null).
      type: str
    active:
      description: The running service, V(server) or V(agent), or empty.
      type: str
    has_cluster:
      description: Whether the node has data of a cluster.
      type: bool
    nvidia_program:
      description: The nvidia runtime that RKE2 finds, or empty.
      type: str
    network_manager:
      description: Whether NetworkManager runs.
      type: bool
    foreign:
      description: Kubernetes installations not made by the role, in sentences without a full stop.
      type: list
      elements: str
    archive_problems:
      description: Why RKE2 cannot be installed from its archive, in sentences without a full stop.
      type: list
      elements: str
    problems:
      description: Why RKE2 would not start, in sentences without a full stop.
      type: list
      elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.state import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
