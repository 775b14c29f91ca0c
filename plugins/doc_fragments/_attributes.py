# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Attributes shared by the modules."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and report what would change, without changing anything.
  diff_mode:
    description: Returns what has changed, or in check mode what would change, when in diff mode.
  idempotent:
    description: A second run with the same options changes nothing.
  platform:
    description: Supported operating systems.
    support: full
    platforms: linux
"""

    NO_DIFF = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

    DIFF = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    FACTS = r"""
options: {}
attributes:
  facts:
    description: Returns facts about the host in RV(ignore:ansible_facts).
"""
