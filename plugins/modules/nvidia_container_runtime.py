#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_runtime
short_description: Internal to the collection's roles, add the nvidia runtime to a container runtime
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Adds the nvidia runtime to the configuration of containerd, docker or CRI-O through C(nvidia-ctk runtime configure),
    and removes it.
  - C(nvidia-ctk) works on a copy of the owner's configuration, so that files are written only if they differ.
  - The owner's configuration is kept in C(/var/lib/gpufleet/nvidia-container-toolkit). Files keep their mode and owner;
    new ones, and the file that C(nvidia-ctk) adds, can be read by root only, since configurations may hold passwords. For
    the same reason, the module returns no content.
  - The container runtime reads what C(nvidia-ctk) generates, where it has a command for that, before a file is written. If
    it rejects it, nothing is changed.
  - Restarts the service if it changes its configuration. If the service does not start then, or containerd has no healthy
    CRI plugin, the module restores the former configuration, restarts the service again, and fails.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Reports a change if the container runtime or C(nvidia-ctk) is not installed yet.
  diff_mode:
    support: partial
    details:
      - Names the files, and does not show their content.
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  name:
    description:
      - The container runtime.
    type: str
    choices: [containerd, crio, docker]
    required: true
  state:
    description:
      - V(present) adds the nvidia runtime. The module also reports a change if the service was started before the module
        last wrote its configuration, as after an interrupted run, and restarts it.
      - V(absent) restores the owner's configuration. If it has been changed since, only the nvidia runtime is removed. A
        service that an administrator has stopped is not started.
      - V(checked) changes nothing. It returns the problems of the running service, and the differences of its
        configuration.
    type: str
    choices: [present, absent, checked]
    default: present
  default_runtime:
    description:
      - Whether containers that request no runtime use the nvidia runtime.
    type: bool
    default: false
  cdi_devices:
    description:
      - Whether containerd and docker accept CDI device names.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Add the nvidia runtime to containerd
  gpufleet.node.nvidia_container_runtime:
    name: containerd
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode.
  returned: O(state=present) or O(state=absent)
  type: list
  elements: str
  sample: [Write /etc/containerd/conf.d/99-nvidia.toml]
stops_containers:
  description:
    - Whether a restart with these actions stops running containers, as docker does without its setting C(live-restore).
  returned: O(state=present) or O(state=absent)
  type: bool
problems:
  description:
    - Why the service cannot start containers with GPUs, and whether its configuration differs from the options. One
      sentence or more each, without a full stop at the end.
  returned: O(state=checked)
  type: list
  elements: str
  sample: []
cri_healthy:
  description:
    - Whether the service runs and, for containerd, whether its CRI plugin works.
  returned: O(state=checked)
  type: bool
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit.container_runtime import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
