# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_plan
short_description: What a change of MIG instances keeps, destroys and creates
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Plans the way of one GPU from the instances that it holds to the ones that are wanted, with no GPU at hand.
  - The plan is the one that M(gpufleet.node.nvidia_mig) makes where no process uses the GPU. It destroys the fewest GPU
    instances that any placement of the wanted ones allows.
  - Fails where the wanted instances do not fit, with the reason and the nearest that fits.
  - Fails on a GPU of the facts that could not be read, with its identity and its C(problem), and on one that the driver
    does not list.
  - The facts do not tell where in a GPU instance its compute instances lie. They are taken to lie as low as they can.
positional: _input, wanted, board
options:
  _input:
    description:
      - What there is. A GPU of the facts, or a list of GPU instances as in its C(mig.instances); an empty list for an
        empty GPU.
      - Of an instance, C(profile) and C(start) are needed. C(id) and C(compute_instances) may be left out; it then
        holds one compute instance over the whole.
    type: raw
    required: true
  wanted:
    description:
      - The value of C(mig_devices) of a layout, as a dictionary of counts or as a list of GPU instances.
      - See the option O(gpufleet.node.nvidia_mig#module:layout[].mig_devices).
    type: raw
    required: true
  board:
    description:
      - The board, by model (V(A100-80GB)), alias (V(A800-80GB)) or PCI device id (V(0x20B510DE)).
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
- name: What would replacing one of seven small instances by a larger one cost?
  ansible.builtin.debug:
    msg: "{{ ansible_facts.nvidia.gpus[0] | gpufleet.node.mig_plan({'1g.10gb': 5, '2g.20gb': 1}) }}"

- name: The same question about a GPU that nobody has yet
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
  description: The plan. Instances have the same shape as in the facts' C(mig.instances).
  type: dict
  contains:
    changed:
      description: Whether anything has to be written.
      type: bool
    kept:
      description: GPU instances that stay. Their compute instances are those that they hold afterwards.
      type: list
      elements: dict
      sample:
        - id: 2
          profile: 3g.40gb
          start: 0
          size: 4
          compute_instances: [{"id": 0, "profile": "3g.40gb", "slices": 3, "uuid": null}]
    destroyed:
      description: GPU instances that go.
      type: list
      elements: dict
      sample: []
    created:
      description: GPU instances that come. Their ids and UUIDs are V(null).
      type: list
      elements: dict
      sample: []
    operations:
      description: The writes in words, in their order.
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

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing


@refusing
def mig_plan(current: object, wanted: object, board: str | None = None) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _plan  # see _errors

    return _plan.of(current, wanted, board)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_plan": mig_plan}
