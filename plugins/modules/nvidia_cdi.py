#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_cdi
short_description: Internal to the collection's roles, keep the CDI specification in line with the GPUs
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Compares the CDI specification of a node with what C(nvidia-ctk cdi generate) generates for its GPUs and MIG devices, and
    replaces it if they differ.
  - Compares what C(nvidia-ctk) generates with the node's GPUs and MIG devices, because it leaves out devices whose nodes in
    C(/dev) are missing. The module creates missing nodes with C(nvidia-ctk system create-device-nodes) and, where it is
    installed, C(nvidia-modprobe). If nodes are still missing, it fails, and keeps the former specification.
  - Replaces it through C(nvidia-cdi-refresh.service) if the toolkit has installed that unit. If the unit is missing or
    does not update it, the module writes it.
  - If all GPUs are in MIG mode and none has a MIG device, there is nothing to specify. The module then removes the
    specification, and stops the toolkit's refresh units, which would fail without devices. It starts the path unit again
    with the next specification.
  - Does nothing if the toolkit is not installed, or no driver is loaded.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  state:
    description:
      - V(present) keeps the specification in line with the devices. V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  output:
    description:
      - Path of the specification. A name that ends with C(.json) selects JSON.
      - By default the one in C(/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env), or V(/var/run/cdi/nvidia.yaml).
        The other settings in that file apply too. The module parses it as systemd does.
    type: path
"""

EXAMPLES = r"""
- name: Refresh the CDI specification
  gpufleet.node.nvidia_cdi:

- name: Compare the CDI specification with the GPUs
  gpufleet.node.nvidia_cdi:
  check_mode: true
  register: cdi
"""

RETURN = r"""
reason:
  description:
    - What the module found. V(current) and V(outdated) compare the specification with the devices. V(no_devices) is a node
      without devices and without specification. V(incomplete) is a node without device nodes that containers need; they
      have been created, or would be in check mode. With V(no_driver) and V(no_toolkit), nothing can be compared.
  returned: O(state=present)
  type: str
  choices: [current, outdated, incomplete, no_devices, no_driver, no_toolkit]
msg:
  description: The reason, and what was changed, as a sentence.
  returned: O(state=present)
  type: str
  sample: /var/run/cdi/nvidia.yaml lists the GPUs and MIG devices of the node
problems:
  description:
    - The reason and a remedy. Empty if there is nothing to change, or it was changed.
  returned: O(state=present)
  type: list
  elements: str
  sample: []
path:
  description: Path of the specification.
  returned: success
  type: str
  sample: /var/run/cdi/nvidia.yaml
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.cdi import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
