#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_record
short_description: Internal to the collection's roles, record what a role installed and changed on a node
version_added: 0.9.0
description:
  - Records what a role installed and changed, so that the role can undo that and nothing else.
  - All roles share one file, C(/etc/ansible/facts.d/gpufleet.fact), which Ansible's fact gathering reads as
    C(ansible_local.gpufleet). Everybody can read it, so it holds no secret.
  - Concurrent runs do not overwrite each other's records. A damaged file is an error.
  - Without O(set) and O(add), only reads.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role whose entry this is, without the collection's name.
    type: str
    required: true
  state:
    description:
      - With V(absent), the role's entry is removed, and with the last entry the file.
    type: str
    choices: [present, absent]
    default: present
  set:
    description:
      - Keys of the entry to replace.
    type: dict
    default: {}
  add:
    description:
      - Lists of the entry to extend. Each item is listed once, in alphabetical order.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Record the hold
  gpufleet.node.node_record:
    role: nvidia_driver
    add:
      held: [nvidia-driver-580-server]

- name: Read what the role recorded
  gpufleet.node.node_record:
    role: nvidia_driver
  register: recorded
"""

RETURN = r"""
record:
  description: The role's entry afterwards. Empty if there is none.
  returned: success
  type: dict
  sample: {held: [nvidia-driver-580-server]}
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.common.record import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
