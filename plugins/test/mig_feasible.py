# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_feasible
short_description: Test whether MIG instances fit on a board
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Tests whether the value of a layout's C(mig_devices) fits on a board. Does not need a GPU.
  - Considers profiles, placements, compute slices, the number of instances, media engines, and the compute instances
    inside each GPU instance.
options:
  _input:
    description:
      - The value of C(mig_devices), as a dictionary of counts or as a list of GPU instances. See the option
        O(gpufleet.node.nvidia_mig#module:layout[].mig_devices).
      - A malformed value is an error. A profile that the board does not have makes the test return V(false).
    type: raw
    required: true
  board:
    description:
      - The board, by model (V(A100-80GB)), alias (V(A800-80GB)), product (V(NVIDIA A100-SXM4-80GB)) or PCI device id
        (V(0x20B510DE)).
      - A board that is unknown, or whose placements are unknown, is an error.
    type: str
    required: true
notes:
  - Only boards with published geometry are supported. On a node, the module queries the GPU.
seealso:
  - plugin: gpufleet.node.mig_plan
    plugin_type: filter
    description: Explains why instances do not fit.
  - module: gpufleet.node.nvidia_mig
"""

EXAMPLES = r"""
- name: Validate a layout before changing any node
  ansible.builtin.assert:
    that: item.mig_devices | default({}) is gpufleet.node.mig_feasible('A100-80GB')
  loop: "{{ nvidia_mig_layout }}"

- name: Two 3g instances and one 1g instance do not fit, because the 3g instances use all memory
  ansible.builtin.debug:
    msg: "{{ {'3g.40gb': 2, '1g.10gb': 1} is gpufleet.node.mig_feasible('A100-80GB') }}"
    # -> false
"""

RETURN = r"""
_value:
  description: Whether the instances fit.
  type: bool
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._mig import instances
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.explain import refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_feasible(mig_devices: object, board: str) -> bool:
    items = instances.parse(mig_devices)
    geometry = boards.load(board)
    try:
        target = instances.resolve(items, geometry)
    except LayoutError:  # the board has no such profile, or the profile no such start or compute instance
        return False
    return bool(geometry.profiles) and refusal(geometry, target.instances) is None


class TestModule:
    def tests(self) -> dict[str, t.Callable[..., bool]]:
        return {"mig_feasible": mig_feasible}
