# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_plan
short_description: Which packages a node's NVIDIA driver is made of
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Decides, from a node's facts and what is wanted, the driver's branch, kernel modules, packages and package source.
    Nothing is asked of the node or of a package source.
  - Fails where what is wanted cannot run the node's GPUs, or does not exist on the node's system. The message says what
    to set instead.
  - Serves the role P(gpufleet.node.nvidia_driver#role), whose tables of package names it takes.
positional: _input, node, wanted
options:
  _input:
    description:
      - The role's table for the node's system, as in the files in C(vars/) of the role.
    type: dict
    required: true
  node:
    description:
      - What is known of the node. C(gpus), C(nvswitches) and C(secure_boot) as the module
        M(gpufleet.node.nvidia_driver_facts) returns them, C(kernel) and C(architecture) as Ansible's facts have them.
        C(host) is its name, for messages.
    type: dict
    required: true
  wanted:
    description:
      - The role's variables, without C(nvidia_driver_) before their names.
    type: dict
    required: true
seealso:
  - module: gpufleet.node.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Show what would be installed
  ansible.builtin.debug:
    msg: "{{ (table | gpufleet.node.driver_plan(node, wanted)).packages }}"
    # -> [linux-image-generic-6.8, linux-modules-nvidia-580-server-open-generic-6.8, ...]
"""

RETURN = r"""
_value:
  description:
    - The C(source), C(branch) that is installed, C(branch_asked), exact C(version) or V(null), kernel C(modules), their
      C(build), C(packages), the package with the C(headers) of the C(kernel) that runs or V(null), the C(host), whether
      there is a C(fabric_manager), C(module_stream) of dnf and whether it is optional (C(module_stream_optional)),
      vendor's C(repository), C(minimum_version) and the C(minimum_board) that needs it, C(gpus), and C(notices) to show.
    - Of Ubuntu's signed modules, the C(kernel_packages) to hold with the driver, and those of the running kernel
      (C(running_modules)).
    - C(load_modules) that the fabric manager needs, and whether the persistence daemon's unit needs a
      C(persistence_override).
  type: dict
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing

Data = dict[str, t.Any]


@refusing
def driver_plan(table: Data, node: Data, wanted: Data) -> Data:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_plan  # see _errors

    return _driver_plan.plan(table, node, wanted)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"driver_plan": driver_plan}
