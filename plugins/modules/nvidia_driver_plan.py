#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_plan
short_description: Internal to the collection's roles, select the driver packages of a node
version_added: 0.9.0
description:
  - Internal to the collection's roles. Selects branch, kernel modules, packages and repository of the NVIDIA driver from the
    role's variables (C(nvidia_driver_*)), the node's facts, and the tables of package names in the collection.
  - Runs on the controller. Connects to the node only on Enterprise Linux, to find C(dkms).
  - Needs facts of C(ansible.builtin.setup) and of M(gpufleet.node.nvidia_driver_facts). Returns problems instead of failing.
    Warns about what an administrator may not expect, such as a transitional branch.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
options:
  packages:
    description:
      - Whether to select packages. With V(false), for a driver that another tool installs, only RV(running_problems) is
        determined, from the facts of M(gpufleet.node.nvidia_driver_facts).
    type: bool
    default: true
author:
  - The gpufleet.node authors (@gpufleet)
seealso:
  - module: gpufleet.node.nvidia_driver_facts
"""

EXAMPLES = r"""
- name: Select the packages and check the node
  gpufleet.node.nvidia_driver_plan:
  register: planned
"""

RETURN = r"""
plan:
  description: What the node should have. Empty if the driver cannot be installed.
  returned: success
  type: dict
  contains:
    manager:
      description: The package manager, V(apt) or V(dnf).
      type: str
    source:
      description: V(distribution) or V(cuda_repository).
      type: str
    branch:
      description: The branch that is installed.
      type: str
      sample: "580"
    version:
      description: The exact version in the settings, or empty.
      type: str
    modules:
      description: The kernel modules, V(open), V(proprietary) or V(none).
      type: str
    build:
      description: V(prebuilt), V(dkms), or V(none) without kernel modules.
      type: str
    packages:
      description: The packages to install.
      type: list
      elements: str
    family:
      description: Patterns of the names of all packages that belong to the driver.
      type: list
      elements: str
    independent:
      description: Packages of the driver whose version may differ from the driver's.
      type: list
      elements: str
    headers:
      description: The package with the headers of the running kernel, or empty if none are needed.
      type: str
    optional_packages:
      description: Ubuntu's signed modules for the running kernel, which may not exist for the driver's version.
      type: list
      elements: str
    kernel_packages:
      description: Packages that install later kernels and their modules, to be held with the driver.
      type: list
      elements: str
    services:
      description: The services to enable and start.
      type: list
      elements: str
    fabric_manager:
      description: Whether the node needs the fabric manager.
      type: bool
    load_modules:
      description: Other kernel modules that the fabric manager needs.
      type: list
      elements: str
    module_options:
      description: Options of the kernel module C(nvidia).
      type: dict
    persistence_override:
      description: Whether the unit of the persistence daemon must be overridden to enable persistence mode.
      type: bool
    module_stream:
      description: The module stream of dnf, or empty.
      type: str
    module_stream_optional:
      description: Whether the repository may lack the stream.
      type: bool
    repository:
      description: NVIDIA's repository or its mirror, with its key and files. Empty with V(distribution).
      type: dict
    minimum_version:
      description: The lowest driver version of the node's boards, or empty.
      type: str
    minimum_board:
      description: The board that requires RV(plan.minimum_version).
      type: str
    notices:
      description: What an administrator may not expect.
      type: list
      elements: str
problems:
  description: Why the driver cannot be installed, in sentences without a full stop.
  returned: success
  type: list
  elements: str
  sample: ["Debian 12 itself has no branch 580, but 535; set nvidia_driver_source to cuda_repository"]
running_problems:
  description: Problems of the driver that runs on the node now, in sentences without a full stop.
  returned: success
  type: list
  elements: str
  sample: []
"""
