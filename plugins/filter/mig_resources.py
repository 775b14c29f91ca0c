# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_resources
short_description: List the Kubernetes resources of a MIG layout
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Lists the resources, with their counts, that a node advertises to Kubernetes through the NVIDIA device plugin.
  - With the strategy V(single), the device plugin advertises no resources if the GPUs differ. The filter fails in that
    case, and the message names the GPUs that differ.
  - With the strategy V(mixed), the device plugin exits if a compute instance does not use its whole GPU instance
    (C(1c.3g.40gb)), and the node advertises no resources. The filter fails in that case, and the message names the
    instance.
  - Fails for a GPU of the facts that could not be read, and reports its identity and C(problem). Also fails for a GPU
    that the driver does not list.
positional: _input, strategy, gpus, board, sharing
options:
  _input:
    description:
      - The GPUs of the facts, which are C(ansible_facts.nvidia.gpus) of M(gpufleet.node.nvidia_driver_facts), for the
        current resources of the node.
      - Or a layout, as in the option O(gpufleet.node.nvidia_mig#module:layout), for the resources of the node with that
        layout. O(gpus) is then required.
    type: list
    elements: dict
    required: true
  strategy:
    description:
      - The MIG strategy of the device plugin.
      - V(none) advertises whole GPUs, regardless of MIG mode.
      - V(single) advertises MIG devices as C(nvidia.com/gpu). Requires MIG devices of the same profile on every GPU, or MIG
        off on every GPU.
      - V(mixed) advertises MIG devices under their profile, and GPUs with MIG off as C(nvidia.com/gpu). Requires a single
        compute instance that uses all of its GPU instance.
    type: str
    choices: [none, single, mixed]
    required: true
  gpus:
    description:
      - The GPUs to apply the layout to. The GPUs of the facts, or a list of boards in order of index, each by model,
        alias, product as C(nvidia-smi) prints it, or PCI device id.
      - A GPU that the layout does not select is unchanged. A GPU that is given by its board has MIG off.
      - If a C(device_filter) or product name of the layout matches one of the products of a board, the GPU is assumed
        to be that product.
      - Fails if the resources depend on the PCI subsystem in a C(device_filter), which only the facts contain.
    type: list
    elements: raw
  board:
    description:
      - The board of GPUs of the facts whose PCI device id is not that of a known board.
    type: str
  sharing:
    description:
      - How pods share the GPUs or MIG devices, a value of the variable C(gpu_cluster_sharing) of the role
        C(gpu_cluster). Sharing multiplies the numbers.
    type: dict
seealso:
  - module: gpufleet.node.nvidia_mig
  - module: gpufleet.node.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Show the Kubernetes resources of the layout
  ansible.builtin.debug:
    msg: "{{ nvidia_mig_layout | gpufleet.node.mig_resources('mixed', gpus=ansible_facts.nvidia.gpus) }}"
    # -> for example {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 28, "nvidia.com/mig-3g.40gb": 7}

- name: Show the Kubernetes resources of a planned node with four boards
  ansible.builtin.debug:
    msg: "{{ nvidia_mig_layout | gpufleet.node.mig_resources('single', gpus=['A100-80GB'] * 4) }}"

- name: Verify that the node's allocatable resources match its GPUs
  ansible.builtin.assert:
    that: allocatable[item.key] | default(0) | int == item.value
  loop: "{{ ansible_facts.nvidia.gpus | gpufleet.node.mig_resources('mixed') | dict2items }}"
"""

RETURN = r"""
_value:
  description: The resources and their counts.
  type: dict
  sample: {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 28, "nvidia.com/mig-3g.40gb": 7}
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_resources(
    value: object, strategy: str, gpus: object = None, board: str | None = None, sharing: object = None
) -> dict[str, int]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import (  # see _layout.errors
        layouts_on_gpus,
        resources,
    )
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import sharing as layout_sharing

    contents = layouts_on_gpus.contents(value, gpus, board)
    mig = any(content.instances is not None for content in contents.values())
    return layout_sharing.advertised(
        resources.resources(contents, strategy), layout_sharing.parse(sharing), strategy, mig
    )


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_resources": mig_resources}
