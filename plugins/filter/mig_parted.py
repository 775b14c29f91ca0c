# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_parted
short_description: Convert MIG instances or a layout to a mig-parted document
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Converts the instances of GPUs, or a layout, to a configuration document of C(nvidia-mig-parted), version 1.
  - The GPU operator's MIG manager reads the same format.
  - The format cannot express where instances start, so the starts are omitted. It also cannot express how compute
    instances are distributed over GPU instances. The filter fails if that matters.
  - A compute instance with fewer multiprocessors than its GPU instance is written as V(1c.1g.20gb), so that
    M(gpufleet.node.nvidia_mig) restores it. C(nvidia-mig-parted) reports both kinds as V(1g.20gb), and recreates
    V(1c.1g.20gb) of a document on every run.
  - Fails for a GPU of the facts that could not be read, and reports its identity and C(problem). Also fails for a GPU
    that the driver does not list. Their instances would be missing in the document, and destroyed when it is applied.
positional: _input, name, gpus, board
options:
  _input:
    description:
      - The GPUs of the facts, which are C(ansible_facts.nvidia.gpus) of M(gpufleet.node.nvidia_driver_facts), to convert
        their current instances.
      - Or a layout, as in the option O(gpufleet.node.nvidia_mig#module:layout). Without O(gpus), the document is valid for
        any node, and its entries can select GPUs only by V(all) or by index.
    type: list
    elements: dict
    required: true
  name:
    description: The name of the configuration in the document.
    type: str
    default: current
  gpus:
    description:
      - The GPUs to apply the layout to. The GPUs of the facts, or a list of boards in order of index.
      - The document then selects each GPU by its index, and the layout is validated against the GPUs.
      - If a C(device_filter) or product name of the layout matches one of the products of a board, the GPU is assumed
        to be that product.
      - Fails if the document depends on the PCI subsystem in a C(device_filter), which only the facts contain.
    type: list
    elements: raw
  board:
    description:
      - The board of GPUs of the facts whose PCI device id is not that of a known board.
    type: str
seealso:
  - module: gpufleet.node.nvidia_mig
  - module: gpufleet.node.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Save the current instances of the node
  ansible.builtin.copy:
    content: "{{ ansible_facts.nvidia.gpus | gpufleet.node.mig_parted | ansible.builtin.to_nice_yaml }}"
    dest: /etc/gpufleet/current.yml
    mode: "0644"

- name: Provide the layout to the GPU operator
  kubernetes.core.k8s:
    definition:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: site-mig-configs
        namespace: gpu-operator
      data:
        config.yaml: "{{ nvidia_mig_layout | gpufleet.node.mig_parted('site') | ansible.builtin.to_nice_yaml }}"
"""

RETURN = r"""
_value:
  description: The document.
  type: dict
  sample:
    version: v1
    mig-configs:
      current:
        - devices: [0, 1]
          mig-enabled: true
          mig-devices: {"1g.10gb": 7}
        - devices: [2]
          mig-enabled: false
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_parted(value: object, name: str = "current", gpus: object = None, board: str | None = None) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import parted  # see _layout.errors

    return parted.of(value, name, gpus, board)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_parted": mig_parted}
