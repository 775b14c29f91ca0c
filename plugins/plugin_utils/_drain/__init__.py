# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking nodes out of service and returning them.

drain_node.py and return_node.py have the steps, with node_guard.py. The others decide, without access to the cluster: record
on the node, evictions, operands, workloads, DRA claims.

Imports _cluster, _layout and _common.
"""
