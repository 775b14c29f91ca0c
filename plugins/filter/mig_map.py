# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_map
short_description: Draw MIG instances as a slice map
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Draws the slices of each GPU on one line, in which a GPU instance is as wide as its placement. Dots are free slices.
  - Brackets list the compute instances of a GPU instance, unless it has a single one with all of its multiprocessors.
    Empty brackets mean that it has none.
  - A GPU of the facts that could not be read is shown as unknown.
positional: _input, board
options:
  _input:
    description:
      - The GPUs of the facts, which are C(ansible_facts.nvidia.gpus) of M(gpufleet.node.nvidia_driver_facts), or one of
        them. The map shows their current instances.
      - Or the value of C(mig_devices) of a layout, as a dictionary of counts or as a list of GPU instances. The map
        shows where the module would place them on an empty GPU. The filter fails if they do not fit.
      - Or a layout, as in the option O(gpufleet.node.nvidia_mig#module:layout). O(gpus) is then required.
    type: raw
    required: true
  board:
    description:
      - The board, by model (V(A100-80GB)), alias (V(A800-80GB)), product (V(NVIDIA A100-SXM4-80GB)) or PCI device id
        (V(0x20B510DE)).
      - Required for a value of C(mig_devices). For GPUs of the facts, only needed if their PCI device id is not that of
        a known board.
    type: str
  gpus:
    description:
      - The GPUs of the facts, or a list of boards in order of index, as P(gpufleet.node.mig_problems#filter) takes them.
      - If set, the input is a layout, and the map shows these GPUs as the layout would configure them if they were empty.
    type: list
    elements: raw
  width:
    description:
      - Width of the terminal in columns. Labels and names are shortened to fit.
      - If omitted, names are not shortened.
    type: int
seealso:
  - module: gpufleet.node.nvidia_driver_facts
  - plugin: gpufleet.node.mig_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the instances of the node
  ansible.builtin.debug:
    msg: "{{ (ansible_facts.nvidia.gpus | gpufleet.node.mig_map(width=100)).splitlines() }}"

- name: Show the placement of a set of instances on a board
  ansible.builtin.debug:
    msg: "{{ {'3g.40gb': 1, '2g.20gb': 1, '1g.10gb': 2} | gpufleet.node.mig_map('A100-80GB') }}"
    # -> A100-80GB  |2g.20gb        |1g.10gb|1g.10gb|3g.40gb                        |

- name: Show a layout on the boards of a node that has no driver yet
  ansible.builtin.debug:
    msg: "{{ (nvidia_mig_layout | gpufleet.node.mig_map(gpus=['A100-80GB', 'A100-80GB'])).splitlines() }}"
"""

RETURN = r"""
_value:
  description: The slice map, one line per GPU.
  type: str
  sample: |
    GPU 0 GPU-9f0c... A100 80GB PCIe  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb                        |
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_map(value: object, board: str | None = None, width: int | None = None, gpus: object = None) -> str:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import map as layout_map  # see _layout.errors

    return layout_map.of(value, board, width, gpus)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_map": mig_map}
