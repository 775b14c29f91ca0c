# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: value_problems
short_description: Values of this collection's variables that have the right type and cannot work
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Looks at what argument specifications cannot say or let pass, such as a text in place of a list.
  - Paths have to be absolute, limits of time positive, and entries of the
    file of host names made of addresses and names.
positional: _input, types
options:
  _input:
    description: Values by the names of their variables. Other variables of the collection may be among them.
    type: dict
    required: true
  types:
    description: The types that the argument specifications give to the variables, by their names.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Refuse a relative path
  ansible.builtin.assert:
    that: problems == []
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    problems: "{{ {'nvidia_mig_lock_path': 'lock'} | gpufleet.node.value_problems }}"
"""

RETURN = r"""
_value:
  description: The problems, each without a full stop. Empty where there is none.
  type: list
  elements: str
  sample: ["nvidia_mig_lock_path is 'lock': give an absolute path"]
"""

import typing as t


def value_problems(values: dict[str, t.Any], types: dict[str, str] | None = None) -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _problems  # see _errors

    return _problems.of_values(values, types or {})


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"value_problems": value_problems}
