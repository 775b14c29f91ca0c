#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_chart_helm
short_description: Internal to the collection's roles, run helm and show its progress
version_added: 0.9.0
description:
  - Internal to the collection's roles. Runs C(kubernetes.core.helm). While helm waits for hooks of the chart, shows why
    pods in the namespace do not start. If helm fails, its error has these reasons.
  - Fails if the release remains, because an earlier removal was interrupted or failed.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  options:
    description:
      - The options of C(kubernetes.core.helm).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Uninstall the GPU operator
  gpufleet.node.gpu_chart_helm:
    options:
      name: gpu-operator
      release_namespace: gpu-operator
      state: absent
      wait: true
"""

RETURN = r"""#"""
