#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_server
short_description: Internal to the collection's roles, check the server that an RKE2 node joins
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Checks whether the server responds and accepts the token. Changes nothing.
  - A token with a checksum is sent only to a server whose CA certificates match it, and a token without one is not sent.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  url:
    description:
      - The URL of the server to join. If empty, nothing is requested.
    type: str
    default: ""
  token:
    description:
      - The token. If empty or without a checksum, only the connection is checked.
    type: str
    default: ""
  data_path:
    description:
      - RKE2's data directory. The token of a server on this node is compared with O(token).
    type: path
    required: true
  required:
    description:
      - Whether to report a server that does not respond.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check the server
  gpufleet.node.rke2_server:
    url: https://192.0.2.7:9345
    data_path: /var/lib/rancher/rke2
  register: checked
"""

RETURN = r"""
problems:
  description: Why the node cannot join, in sentences without a full stop.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.server import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
