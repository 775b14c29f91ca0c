# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_problems
short_description: What of a node's driver packages is not as it should be
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
extends_documentation_fragment: [gpufleet.node._driver_packages]
description:
  - Compares what C(dpkg-query) or C(rpm) lists with a plan of the filter P(gpufleet.node.driver_plan#filter), for a node
    that has been provisioned before.
positional: _input, plan, manager
options:
  _input:
    description: The list, as the filter P(gpufleet.node.driver_status#filter) takes it.
    type: str
    required: true
  hold:
    description: Whether the packages of the driver have to be held at their version.
    type: bool
    default: true
  locks:
    description: The lines of the file of dnf's versionlock plugin. For O(manager=dnf) alone.
    type: list
    elements: str
    default: []
seealso:
  - plugin: gpufleet.node.driver_status
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Refuse a driver of another branch
  ansible.builtin.assert:
    that: problems == []
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    problems: "{{ listed.stdout | gpufleet.node.driver_problems(plan, 'apt') }}"
"""

RETURN = r"""
_value:
  description: The problems, without a full stop. Empty where there is none.
  type: list
  elements: str
  sample: ["driver 535.309.01 is installed, and branch 550 is asked for"]
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing


@refusing
def driver_problems(
    text: str,
    plan: dict[str, t.Any],
    manager: str,
    hold: bool = True,
    locks: t.Sequence[str] = (),
    independent: t.Sequence[str] = (),
) -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_packages  # see _errors

    packages = _driver_packages.parse(text, manager)
    held = locks if manager == "dnf" else None
    return _driver_packages.problems(_driver_packages.status(packages, plan, independent), plan, hold, held)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"driver_problems": driver_problems}
