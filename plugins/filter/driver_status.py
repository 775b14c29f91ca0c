# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_status
short_description: What of a driver's packages a node has
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
extends_documentation_fragment: [gpufleet.node._driver_packages]
description:
  - Reads what C(dpkg-query) or C(rpm) lists and compares it with a plan of the filter P(gpufleet.node.driver_plan#filter).
positional: _input, plan, manager
options:
  _input:
    description:
      - With O(manager=apt), lines of status, name and version. With O(manager=dnf), lines of name, version, release and
        architecture. Fields are separated by tabulators.
    type: str
    required: true
seealso:
  - plugin: gpufleet.node.driver_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what is missing
  ansible.builtin.debug:
    msg: "{{ (listed.stdout | gpufleet.node.driver_status(plan, 'apt')).missing }}"
"""

RETURN = r"""
_value:
  description:
    - The driver's C(version) or V(null), packages of the plan that are C(missing), C(broken) ones with their state, C(held)
      ones, names of all that makes the C(driver), the same as C(locks) for dnf, packages of the plan that have another version
      (C(mixed)), and all packages of the driver that are C(present).
  type: dict
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing

Data = dict[str, t.Any]


@refusing
def driver_status(text: str, plan: Data, manager: str, independent: t.Sequence[str] = ()) -> Data:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_packages  # see _errors

    return _driver_packages.status(_driver_packages.parse(text, manager), plan, independent)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"driver_status": driver_status}
