# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Truth values of variables, which -e and inventories in INI format pass as strings.

As Ansible's filter bool reads them, because the roles use it. ansible.module_utils.parsing.convert_bool, which validates
argument specifications, also takes y, t and surrounding spaces for true.
"""

from __future__ import annotations

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def is_true(value: object) -> bool:
    return str(value).lower() in _TRUE


def is_valid(value: object) -> bool:
    """Whether argument specifications and the filter read the value alike."""
    return str(value).lower() in (*_TRUE, *_FALSE)
