# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_plan
short_description: Plan a change of MIG instances
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Plans the change of one GPU from its current to the desired instances. Does not need a GPU.
  - The plan is the one that M(gpufleet.node.nvidia_mig) makes for an idle GPU. It destroys the fewest GPU instances
    that any placement of the desired instances allows.
  - Fails if the desired instances do not fit, and reports the reason and the nearest set that fits.
  - Fails for a GPU of the facts that could not be read, and reports its identity and C(problem). Also fails for a GPU
    that the driver does not list.
  - The facts do not contain where compute instances are inside a GPU instance. The filter assumes the lowest possible
    placements.
positional: _input, desired, board
options:
  _input:
    description:
      - The current state. A GPU of the facts, which is an item of C(ansible_facts.nvidia.gpus) of
        M(gpufleet.node.nvidia_driver_facts), or a list of GPU instances as in its C(mig.instances). An empty list is an
        empty GPU.
      - Each instance needs C(profile) and C(start). C(id) and C(compute_instances) may be omitted. The default is a
        single compute instance with all slices.
    type: raw
    required: true
  desired:
    description:
      - The desired instances, the value of C(mig_devices) of a layout, as a dictionary of counts or as a list of GPU
        instances.
      - See the option O(gpufleet.node.nvidia_mig#module:layout[].mig_devices).
    type: raw
    required: true
  board:
    description:
      - The board, by model (V(A100-80GB)), alias (V(A800-80GB)), product (V(NVIDIA A100-SXM4-80GB)) or PCI device id
        (V(0x20B510DE)).
      - Required unless the input is a GPU of the facts whose PCI device id is that of a known board.
    type: str
seealso:
  - plugin: gpufleet.node.mig_feasible
    plugin_type: test
  - plugin: gpufleet.node.mig_map
    plugin_type: filter
  - module: gpufleet.node.nvidia_mig
"""

EXAMPLES = r"""
- name: Show the effect of replacing two of seven small instances with a larger one
  ansible.builtin.debug:
    msg: "{{ ansible_facts.nvidia.gpus[0] | gpufleet.node.mig_plan({'1g.10gb': 5, '2g.20gb': 1}) }}"

- name: Plan a change for a board without a GPU
  ansible.builtin.debug:
    msg: "{{ plan.map.before }}{{ plan.map.after }}{{ plan.destroyed | length }} destroyed"
  vars:
    current:
      - {profile: 3g.40gb, start: 0}
      - {profile: 1g.10gb, start: 4}
    plan: "{{ current | gpufleet.node.mig_plan({'3g.40gb': 1, '2g.20gb': 1}, board='A100-80GB') }}"
"""

RETURN = r"""
_value:
  description: The plan. Instances have the same structure as in the facts' C(mig.instances).
  type: dict
  contains:
    changed:
      description: Whether the GPU would change.
      type: bool
    kept:
      description: GPU instances that are kept, with their compute instances after the change.
      type: list
      elements: dict
      sample:
        - id: 2
          profile: 3g.40gb
          start: 0
          size: 4
          compute_instances: [{"id": 0, "profile": "3g.40gb", "slices": 3, "uuid": null}]
    destroyed:
      description: GPU instances that are destroyed.
      type: list
      elements: dict
      sample: []
    created:
      description: GPU instances that are created. Their ids and UUIDs are V(null).
      type: list
      elements: dict
      sample: []
    operations:
      description: Descriptions of the writes, in order.
      type: list
      elements: str
      sample: ["create GPU instance 3g.40gb at 4:4", "create compute instance 3g.40gb in 3g.40gb at 4:4"]
    map:
      description: The slice map before and after.
      type: dict
      contains:
        before:
          description: The slice map before, one line.
          type: str
        after:
          description: The slice map after, one line.
          type: str
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_plan(current: object, desired: object, board: str | None = None) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import plan as layout_plan  # see _layout.errors

    return layout_plan.of(current, desired, board)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_plan": mig_plan}
