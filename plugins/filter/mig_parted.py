# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_parted
short_description: Write MIG instances or a layout as a mig-parted document
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Writes what GPUs hold, or a layout, as a configuration document of C(nvidia-mig-parted), version 1.
  - The GPU operator's MIG manager reads the same format.
  - Such a document cannot say where instances start, so that is left out. It also cannot say how compute instances are
    spread over GPU instances; where that matters, the filter fails.
  - A compute instance with fewer multiprocessors than its GPU instance is written as V(1c.1g.20gb), so that
    M(gpufleet.node.nvidia_mig) restores it. C(nvidia-mig-parted) reports either kind as V(1g.20gb), and recreates on
    every run what a document calls V(1c.1g.20gb).
  - Fails on a GPU of the facts that could not be read, with its identity and its C(problem), and on one that the driver
    does not list. A document without its instances would destroy them where it is applied.
positional: _input, name, gpus, board
options:
  _input:
    description:
      - The GPUs of the facts, for what they hold.
      - Or a layout. Without O(gpus) it is written for any node. Its entries can then name GPUs only as V(all) or by
        index.
    type: list
    elements: dict
    required: true
  name:
    description: The name of the configuration in the document.
    type: str
    default: current
  gpus:
    description:
      - The GPUs that the layout is for. The GPUs of the facts, or a list of boards in order of index.
      - The document then names each GPU by its index, and the layout is checked against the GPUs.
      - Where a C(device_filter) or product name of the layout means one of the products of a board, the GPU is taken to
        be that product.
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
- name: Keep what the node holds now
  ansible.builtin.copy:
    content: "{{ ansible_facts.nvidia.gpus | gpufleet.node.mig_parted | ansible.builtin.to_nice_yaml }}"
    dest: /etc/gpufleet/current.yml
    mode: "0644"

- name: Give the layout to the GPU operator
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

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing


@refusing
def mig_parted(value: object, name: str = "current", gpus: object = None, board: str | None = None) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _parted  # see _errors

    return _parted.of(value, name, gpus, board)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_parted": mig_parted}
