# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Variables that look like ones of this collection and are none
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Ansible passes over a misspelt variable in silence, and the role takes its default. This filter finds such names.
positional: _input, known, prefixes
options:
  _input:
    description: The names of variables that are defined.
    type: list
    elements: str
    required: true
  known:
    description: The names that have a meaning.
    type: list
    elements: str
    required: true
  prefixes:
    description: What a name has to begin with to be judged.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse variables that no role reads
  ansible.builtin.assert:
    that: problems == []
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    known: [nvidia_mig_layout, nvidia_mig_reset]
    problems: "{{ query('ansible.builtin.varnames', '.*') | gpufleet.node.unknown_variables(known, ['nvidia_mig_']) }}"
"""

RETURN = r"""
_value:
  description: One sentence for each name, with what was probably meant.
  type: list
  elements: str
  sample: ["nvidia_mig_layuot is no variable of this collection: did you mean nvidia_mig_layout?"]
"""

import typing as t


def unknown_variables(names: list[str], known: list[str], prefixes: list[str]) -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _problems  # see _errors

    return _problems.of_names(names, known, prefixes)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"unknown_variables": unknown_variables}
