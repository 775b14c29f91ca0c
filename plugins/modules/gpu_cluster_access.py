#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_cluster_access
short_description: Internal to the collection's roles, keep credentials of a cluster until the run ends
version_added: 0.9.0
description:
  - Internal to the collection's roles. Creates a folder on the controller for temporary files of this run, for its user
    only, and writes the kubeconfig of a server to it. Ansible removes the folder when the run ends, also after Ctrl-C.
  - Removes the folders that runs have left which were killed.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  kubeconfig:
    description:
      - The content of the kubeconfig, in base64. If undefined, none is written.
    type: str
  server:
    description:
      - The address of the server, which replaces loopback addresses in the kubeconfig.
    type: str
    default: ""
  name:
    description:
      - The name of the file in the folder.
    type: str
    default: kubeconfig
  keep:
    description:
      - A path on the controller to which the file in the folder is copied, with mode 0600, and for the user of the run.
    type: path
"""

EXAMPLES = r"""
- name: Write the kubeconfig of a server on the controller
  gpufleet.node.gpu_cluster_access:
    kubeconfig: "{{ slurped.content }}"
    server: "{{ hostvars[groups.masters[0]].ansible_host }}"
"""

RETURN = r"""
folder:
  description: The path of the folder.
  returned: if it can be used
  type: str
  sample: /home/ops/.ansible/tmp/ansible-local-1234abcdefgh/gpufleet
problem:
  description: Why the folder or the kubeconfig cannot be used.
  returned: if there is one
  type: str
kubeconfig:
  description: The path of the kubeconfig.
  returned: if one was given
  type: str
  sample: /home/ops/.ansible/tmp/ansible-local-1234abcdefgh/gpufleet/kubeconfig
"""
