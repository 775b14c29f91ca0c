#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_requirements
short_description: Internal to the collection's roles, check whether a node can be configured by the role nvidia_mig
version_added: 0.9.0
description:
  - Internal to the role P(gpufleet.node.nvidia_mig#role). Reports missing root privileges, another owner of MIG, and a
    missing group. Changes nothing.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  record:
    description:
      - The file with the names of stopped units, which the role must be able to write. Not checked by default.
    type: path
  access_group:
    description:
      - A group that must exist.
    type: str
    default: ""
  owner:
    description:
      - Who owns MIG. With V(host), the GPU operator's MIG manager must not run on the node.
    type: str
    choices: [host, operator]
    default: host
"""

EXAMPLES = r"""
- name: Check the owner of MIG
  gpufleet.node.nvidia_mig_requirements:
    owner: host
  register: node
"""

RETURN = r"""
problems:
  description: What prevents the role from managing MIG on this node, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.requirements import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
