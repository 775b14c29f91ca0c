# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_problems
short_description: List all problems of a MIG layout
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Validates a layout against the GPUs of a node and returns all problems. Does not need a GPU.
  - The modules and the other filters stop at the first problem. This filter can validate a whole inventory at once.
positional: _input, gpus, driver
options:
  _input:
    description:
      - The layout. See the option O(gpufleet.node.nvidia_mig#module:layout).
    type: raw
    required: true
  gpus:
    description:
      - The GPUs of the facts, which are C(ansible_facts.nvidia.gpus) of M(gpufleet.node.nvidia_driver_facts). Or a list of
        boards in order of index, each by model, alias, product as C(nvidia-smi) prints it, or PCI device id. Boards
        without MIG, such as V(L40S), can be named too.
      - A board is sold as several products (SXM, PCIe), each with its PCI device id and product names. A layout is
        valid if at least one product of the boards matches its C(device_filter) and product names. Give the PCI device
        id or the product instead of the board to validate against that product only.
      - The name of a board determines neither the PCI subsystem nor the UUID and PCI bus id of a GPU, which only the facts
        contain. It is a problem if a layout fits only on some subsystems that its C(device_filter) may match. A UUID or
        PCI bus id may be that of any of the boards, and the instances of its entry must fit on at least one of them.
      - A GPU or board whose placements are unknown is not checked here, but by M(gpufleet.node.nvidia_mig).
      - Without O(gpus), only properties that do not depend on the GPUs are validated.
    type: list
    elements: raw
  driver:
    description:
      - Version (V(580.95.05)) or branch (V(580)) of the node's driver. Some boards need a minimum version for MIG.
    type: str
seealso:
  - plugin: gpufleet.node.mig_feasible
    plugin_type: test
  - module: gpufleet.node.nvidia_mig
"""

EXAMPLES = r"""
- name: Fail if the layout does not fit on the node's boards
  ansible.builtin.assert:
    that: problems == []
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    problems: "{{ nvidia_mig_layout | gpufleet.node.mig_problems(gpus=['A100-80GB', 'A100-80GB'], driver='580') }}"
"""

RETURN = r"""
_value:
  description: The problems, each a sentence that names the entry, the GPU and the remedy. Empty if there are none.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_problems(layout: object, gpus: object = None, driver: object = None) -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import problems  # see _layout.errors

    return problems.of_layout(layout, gpus, driver)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"mig_problems": mig_problems}
