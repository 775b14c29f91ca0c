#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_restart
short_description: Internal to the collection's roles, restart pods
version_added: 0.9.0
description:
  - Internal to the collection's roles. Deletes pods that a controller replaces, all at once, and waits until they are
    gone. Repeats requests while the API server does not respond.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  pods:
    description:
      - The pods, with the keys C(namespace), C(name) and C(uid).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Restart a device plugin
  gpufleet.node.gpu_chart_restart:
    pods:
      - {namespace: gpu-operator, name: nvidia-device-plugin-daemonset-x7k2p, uid: 7f1c2c8e-61b4-4ac1-a3a2-d4c5b3d9d6e1}
"""

RETURN = r"""#"""
