# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: openpgp_fingerprints
short_description: The fingerprints of OpenPGP public keys
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Computes the fingerprint of every primary key in a file of public keys, armoured or not. Nothing but Python is needed for
    it, on the node or elsewhere.
positional: _input
options:
  _input:
    description: The file's content in base64, as the module C(ansible.builtin.slurp) returns it.
    type: str
    required: true
  damaged:
    description:
      - What a file that holds no public key, or holds a damaged one, leads to.
      - With V(none) it has no fingerprints; with V(refuse) the filter fails and says what is wrong with it.
    type: str
    choices: [refuse, none]
    default: refuse
"""

EXAMPLES = r"""
- name: Check a package source's key
  ansible.builtin.assert:
    that: (key.content | gpufleet.node.openpgp_fingerprints) == ['EB693B3035CD5710E231E123A4B469963BF863CC']
"""

RETURN = r"""
_value:
  description: Fingerprints, in 40 hexadecimal digits each.
  type: list
  elements: str
  sample: [EB693B3035CD5710E231E123A4B469963BF863CC]
"""

import base64
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing


@refusing
def openpgp_fingerprints(content: str, damaged: str = "refuse") -> list[str]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _openpgp, _refusal  # see _errors

    try:
        return _openpgp.fingerprints(base64.b64decode(content))
    except _refusal.Refusal:
        if damaged == "none":
            return []
        raise


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"openpgp_fingerprints": openpgp_fingerprints}
