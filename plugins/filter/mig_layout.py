# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_layout
short_description: Find a layout by its name
version_added: 0.9.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Returns the layout that a name stands for, as the roles of this collection read C(nvidia_mig_layout).
  - Returns a layout that is a list as it is.
  - Fails for an unknown name, and lists those that exist.
positional: _input, layouts
options:
  _input:
    description: The name of a layout, or a layout.
    type: raw
    required: true
  layouts:
    description: Layouts by name.
    type: dict
    default: {}
seealso:
  - plugin: gpufleet.node.mig_map
    plugin_type: filter
"""

EXAMPLES = r"""
# group_vars/all.yml:
# nvidia_mig_layouts:
#   training: [{devices: all, mig_enabled: true, mig_devices: {7g.80gb: 1}}]
#   inference: [{devices: all, mig_enabled: true, mig_devices: {1g.10gb: 7}}]
# nvidia_mig_layout: inference
- name: Show the layout on two boards
  ansible.builtin.debug:
    msg: "{{ (nvidia_mig_layout | gpufleet.node.mig_layout(nvidia_mig_layouts)
              | gpufleet.node.mig_map(gpus=['A100-80GB', 'A100-80GB'])).splitlines() }}"
"""

RETURN = r"""
_value:
  description: The layout. See the option O(gpufleet.node.nvidia_mig#module:layout).
  type: list
  elements: dict
  sample: [{devices: all, mig_enabled: true, mig_devices: {1g.10gb: 7}}]
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.errors import refusing


@refusing
def mig_layout(value: object, layouts: object = None) -> object:
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import named  # see _layout.errors

    layout = named.resolve(value, layouts)
    if isinstance(layout, str):
        raise Refusal(named.unknown(layout, layouts))
    return layout


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mig_layout": mig_layout}
