# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What nodes and the controller use for every subject. No I/O, no Ansible.

    data.py         the type of plain data
    text.py         values and lists in messages
    printable.py    removes control characters

Travels with the engine. Imports nothing else of the collection.

Tested under another name (folders are those of tests/unit/plugins):
    data: module_utils/_backend/test_nvml.py
    text: module_utils/_mig/test_messages.py
    printable: plugin_utils/_common/test_output.py
"""
