#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_toolkit_plan
short_description: Internal to the collection's roles, plan the steps of nvidia_container_toolkit on a node
version_added: 0.9.0
description:
  - Internal to the collection's roles. Changes nothing.
  - Selects the container runtimes to configure, and lists the problems that would make the role fail.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - It changes nothing.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
author:
  - The gpufleet.node authors (@gpufleet)
options:
  runtimes:
    description:
      - The requested container runtimes, or V(auto) alone for those that are installed.
      - V(auto) selects none on a node with RKE2 or K3s. If no runtime is installed, it selects containerd from the
        distribution.
    type: list
    elements: str
    choices: [auto, containerd, crio, docker]
    required: true
  version:
    description:
      - The requested version of the toolkit.
    type: str
    required: true
  roles:
    description:
      - The roles that the same run applies to the node. One of V(rke2) or V(k3s) brings a containerd of its own.
    type: list
    elements: str
    default: []
  distribution:
    description:
      - Name and version of the distribution, for messages.
    type: str
    required: true
  os_family:
    description:
      - C(ansible_facts['os_family']) of the node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Plan the container toolkit
  gpufleet.node.nvidia_container_toolkit_plan:
    runtimes: auto
    version: 1.20.1
    distribution: Debian 12
    os_family: Debian
  register: plan
"""

RETURN = r"""
problems:
  description: Why the role cannot do what the inventory requests, one sentence or more each.
  returned: always
  type: list
  elements: str
  sample: []
runtimes:
  description: The container runtimes to configure.
  returned: always
  type: list
  elements: str
  sample: [containerd]
install_containerd:
  description: Whether to install containerd from the distribution first.
  returned: always
  type: bool
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit.plan import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
