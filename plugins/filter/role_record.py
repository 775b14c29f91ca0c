# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: role_record
short_description: What a role noted on a node, from the file that it left there
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Reads what the roles P(gpufleet.node.nvidia_driver#role) and P(gpufleet.node.nvidia_container_toolkit#role) note on a
    node. A file that was not written by them, or was cut short, is refused with its name and what to do.
positional: _input, path
options:
  _input:
    description: The file as C(ansible.builtin.slurp) returns it, in Base64. Empty where there is no file.
    type: str
    required: true
  path:
    description: The file's path, for the message.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what the role installed
  ansible.builtin.debug:
    msg: "{{ (slurped.content | gpufleet.node.role_record('/etc/gpufleet/nvidia_driver.json')).installed }}"
"""

RETURN = r"""
_value:
  description: The record. Empty where there is no file.
  type: dict
"""

import base64
import json
import typing as t

from ansible.errors import AnsibleFilterError

_LISTS = ("installed", "held", "locks", "before")


def role_record(content: str, path: str) -> dict[str, t.Any]:
    if not content:
        return {}
    try:
        record = json.loads(base64.b64decode(content))
        _check(record)
    except (ValueError, RecursionError) as error:
        raise AnsibleFilterError(
            "%s is not what a role of gpufleet.node wrote (%s). Move it away and run this again; what the role installed "
            "before then will stay when it is undone" % (path, error)
        ) from None  # Ansible would say it twice
    return t.cast("dict[str, t.Any]", record)


def _check(record: object) -> None:
    if not isinstance(record, dict):
        raise ValueError("no mapping")
    for name in _LISTS:
        value = record.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError("%s is no list of names" % name)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"role_record": role_record}
