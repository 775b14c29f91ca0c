# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_failure
short_description: Why a package manager failed
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Tells the cause, and what to do, from what a package manager and a build said. Keeps the last lines of both.
positional: _input, build_log
options:
  _input:
    description: What the package manager said, as one text or several. A line that comes again is kept once.
    type: raw
    required: true
  build_log:
    description: The log of the kernel module's build, where there is one.
    type: str
    default: ""
  lines:
    description: How many of the last lines of each to keep.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: Fail with the cause
  ansible.builtin.fail:
    msg: "{{ (result.stderr | gpufleet.node.driver_failure(make_log)).cause }}"
"""

RETURN = r"""
_value:
  description: The C(cause), and the last lines of C(output) and C(build_log).
  type: dict
"""

import typing as t


def driver_failure(said: str | t.Sequence[str], build_log: str = "", lines: int = 20) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_packages  # see _errors

    text = said if isinstance(said, str) else "\n".join(said)
    return {
        "cause": _driver_packages.cause(text),
        "output": _driver_packages.tail(text, lines),
        "build_log": _driver_packages.tail(build_log, lines),
    }


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"driver_failure": driver_failure}
