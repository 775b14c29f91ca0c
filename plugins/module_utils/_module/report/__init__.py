# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report needs of a node.

    node_state.py  GPUs with their processes, driver, container toolkit, and whether the node is out of service

Imports driver, mig and common.

Tested under another name (folders are those of tests/unit/plugins):
    node_state: modules/test_node_state.py
"""
