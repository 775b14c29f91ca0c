#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_service
short_description: Internal to the collection's roles, start RKE2 and check its containerd
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Starts RKE2 if it does not run, and restarts it if it was started before its program, its configuration or the container
    toolkit was installed. Waits until the node is ready, and checks that its containerd has the runtime C(nvidia).
  - If RKE2 does not start, the reason is read from its log. A unit that was not running before is then stopped.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  type:
    description:
      - The RKE2 service.
    type: str
    choices: [server, agent]
    required: true
  state:
    description:
      - V(checked) changes nothing, and returns the problems of the running service.
    type: str
    choices: [started, checked]
    default: started
  data_path:
    description:
      - RKE2's data directory.
    type: path
    required: true
  nvidia_runtime:
    description:
      - Whether containerd must have the runtime C(nvidia). V(auto) requires it if the container toolkit is installed.
    type: str
    choices: [auto, required, ignored]
    default: auto
  ready:
    description:
      - Whether to wait until the node is ready, which requires a network plugin.
    type: bool
    default: true
  changed:
    description:
      - Whether the program or the configuration has just been changed, or would be in check mode.
    type: bool
    default: false
  files:
    description:
      - With O(state=checked), configuration files to compare.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - The file.
        type: path
        required: true
      sha256:
        description:
          - The checksum of its desired content. If it is empty, the file may have any content.
        type: str
        required: true
  timeout:
    description:
      - Seconds to wait.
    type: int
    default: 600
"""

EXAMPLES = r"""
- name: Start RKE2
  gpufleet.node.rke2_service:
    type: server
    data_path: /var/lib/rancher/rke2
"""

RETURN = r"""
reasons:
  description: Why the service was started or restarted. Empty if it was not.
  returned: O(state=started)
  type: list
  elements: str
node_name:
  description: The node's name in the cluster. Empty if it is unknown.
  returned: O(state=started)
  type: str
problems:
  description: Problems of the running service, in one or more sentences each.
  returned: O(state=checked)
  type: list
  elements: str
differences:
  description: A problem that names those of O(files) that are missing or have other content. Otherwise empty.
  returned: O(state=checked)
  type: list
  elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.service import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
