# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the filters that judge the packages of a driver are all given."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  plan:
    description: A plan of the filter P(gpufleet.node.driver_plan#filter).
    type: dict
    required: true
  manager:
    description: The package manager.
    type: str
    choices: [apt, dnf]
    required: true
  independent:
    description: Packages of the driver that have versions of their own.
    type: list
    elements: str
    default: []
"""
