# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: board_problems
short_description: Compare a node's GPUs with the boards of the inventory
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Compares the GPUs of the facts with a list of boards. A GPU of an unknown board is accepted.
positional: _input, boards
options:
  _input:
    description: The GPUs, as the module M(gpufleet.node.nvidia_driver_facts) returns them.
    type: list
    elements: dict
    required: true
  boards:
    description: The boards in order of index, each by model, alias or PCI device id.
    type: list
    elements: str
    required: true
seealso:
  - module: gpufleet.node.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Fail if the node has other boards
  ansible.builtin.assert:
    that: problems == []
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    problems: "{{ ansible_facts['nvidia'].gpus | gpufleet.node.board_problems(['A100-80GB', 'A100-80GB']) }}"
"""

RETURN = r"""
_value:
  description: The problems, each without a full stop. Empty if there are none.
  type: list
  elements: str
  sample: ["the driver shows 1 GPUs, and 2 boards are named"]
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing


@refusing
def board_problems(gpus: object, boards: object) -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _problems  # see _errors

    return _problems.of_boards(gpus, boards)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., list[str]]]:
        return {"board_problems": board_problems}
