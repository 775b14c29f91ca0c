#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
short_description: Internal to the collection's roles, read what a report shows of a node
version_added: 0.9.0
description:
  - Internal to the collection's roles. Reads GPUs, driver, processes, and the version of the container toolkit in one task.
  - Returns no facts, because processes change, and facts may be cached.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - It changes nothing.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
author:
  - The gpufleet.node authors (@gpufleet)
options:
  drain_record_path:
    description:
      - The file that exists while the node is out of service of a scheduler other than Kubernetes.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read the node
  gpufleet.node.node_state:
    drain_record_path: /etc/gpufleet-out-of-service
  register: state
"""

RETURN = r"""
nvidia:
  description:
    - What M(gpufleet.node.nvidia_driver_facts) returns as RV(gpufleet.node.nvidia_driver_facts#module:ansible_facts.nvidia).
      Each GPU has C(processes) too.
    - Each process has C(pid), C(name), C(gi_id) and C(ci_id), which are V(null) for the whole GPU, and C(pod_uid), which
      is V(null) outside pods. The list is V(null) if the GPU cannot be read.
  returned: success
  type: dict
toolkit:
  description: The C(version) of NVIDIA's container toolkit, or with V(null), the C(problem).
  returned: success
  type: dict
  sample: {"version": "1.20.1", "problem": null}
nodename:
  description: The host name that the node reports.
  returned: success
  type: str
  sample: gpu1
drained:
  description: Whether O(drain_record_path) exists.
  returned: success
  type: bool
  sample: false
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.report.node_state import ARGUMENTS, run


def main() -> None:
    run(Module(**ARGUMENTS, supports_check_mode=True))


if __name__ == "__main__":
    main()
