#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig_engine
short_description: Put the MIG engine on a node, to be run without Ansible
version_added: 0.1.0
description:
  - Unpacks the engine of M(gpufleet.node.nvidia_mig) on a node, as a Python package that needs the standard library alone, and
    C(nvidia-ml-py) where it is there.
  - The role P(gpufleet.node.nvidia_mig#role) uses it for the unit that restores the MIG layout at boot. It is of little use on
    its own.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Names the files that differ, and not their content.
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  path:
    description:
      - The directory to put the package into. Everything in its directory C(gpufleet_mig) is replaced.
    type: path
    default: /usr/local/lib/gpufleet
  state:
    description:
      - Whether the engine should be there.
      - With V(absent), O(path) is removed too where nothing else is in it.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: gpufleet.node.nvidia_mig
"""

EXAMPLES = r"""
- name: Put the engine on the node
  gpufleet.node.nvidia_mig_engine:

- name: Take it away
  gpufleet.node.nvidia_mig_engine:
    state: absent
"""

RETURN = r"""
path:
  description: Path of the package.
  returned: always
  type: str
  sample: /usr/local/lib/gpufleet/gpufleet_mig
python:
  description: The Python that the module ran with, and that the engine is good for.
  returned: always
  type: str
  sample: /usr/bin/python3
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.node.plugins.module_utils._module.engine import ARGUMENTS, run


def main() -> None:
    run(AnsibleModule(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
